#!/bin/bash
# 2 nodes of lumi (lumi-g), ranks on each: 8. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=train
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
export NCCL_DEBUG=INFO APPTAINERENV_NCCL_DEBUG=INFO SINGULARITYENV_NCCL_DEBUG=INFO
export NCCL_ALGO=Tree APPTAINERENV_NCCL_ALGO=Tree SINGULARITYENV_NCCL_ALGO=Tree

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# Each rank of a node gets the cores near its GPU, GPU 0 first.
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=8 --cpus-per-task=7 \
    --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000 \
    singularity exec "$SIF" \
    conda-python-distributed train.py
