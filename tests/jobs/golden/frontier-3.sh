#!/bin/bash
# 2 nodes of frontier (compute), ranks on each: 8. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=ddp_test
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=ABC123
#SBATCH --time=00:05:00
#SBATCH --partition=batch
#SBATCH --nodes=2
# one rank per GPU
#SBATCH --ntasks-per-node=8
# all cores that a job may use, divided among the tasks
#SBATCH --cpus-per-task=7
# disable_rdzv_get: for FI_CXI_RDZV_PROTO=alt_read; single_node_vni: Slingshot also on a single node; job_vni: Slingshot for concurrent steps
#SBATCH --network=disable_rdzv_get,single_node_vni,job_vni
# for staging to the nodes' nvme
#SBATCH -C nvme

[[ ${SLURM_EXPORT_ENV-} != NONE ]] || unset SLURM_EXPORT_ENV
module load PyTorch || exit

# Copies on every node, verified there and removed when the job ends. "$SIF" then points to the copy; if
# copying fails, it is unchanged.
staged=$("$RUNSCRIPTS"/stage-image "/mnt/bb/$USER") || exit
eval "$staged"

# Slurm chooses the cores of each rank.
# The ranks expand variables in single quotes, not this shell.
# shellcheck disable=SC2016
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=8 --cpus-per-task=7 --gpus-per-task=1 \
    --gpu-bind=closest \
    singularity exec --rocm "$SIF" \
    run-in-env bash -c \
    'conda-python-distributed -W ignore -u multinode_olcf.py 2000 10 --master_addr=$(get-master) --master_port=$((20000 + SLURM_JOB_ID % 10000))'
