#!/bin/bash
# 2 nodes of lumi (lumi-g), ranks on each: 8. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=bash
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=project_465000001
#SBATCH --time=01:00:00
#SBATCH --partition=standard-g
#SBATCH --nodes=2
# one rank per GPU
#SBATCH --ntasks-per-node=8
# all cores that a job may use, divided among the tasks
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G

module load PyTorch || exit

# Each rank of a node gets the cores near its GPU, GPU 0 first.
# The ranks expand variables in single quotes, not this shell.
# shellcheck disable=SC2016
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=8 --cpus-per-task=7 \
    --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000 \
    singularity exec --bind .:/workdir "$SIF" \
    run-in-env bash -c \
    'conda-python-distributed --gpus-visible all -u /workdir/cv_example_ds.py --deepspeed --deepspeed_config /workdir/ds_fp16_z1_config.json -a resnet50 --batch-size 4096 --workers 7 --gpu $SLURM_LOCALID --local_rank $SLURM_LOCALID --epochs 2 /flash/project_465000001/data-sets/data-resnet-small'
