#!/bin/bash
# 2 nodes of frontier (compute), ranks on each: 8. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=train
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
# disable_rdzv_get: for FI_CXI_RDZV_PROTO=alt_read
#SBATCH --network=disable_rdzv_get

[[ ${SLURM_EXPORT_ENV-} != NONE ]] || unset SLURM_EXPORT_ENV
export all_proxy=socks://proxy.ccs.ornl.gov:3128/
export ftp_proxy=ftp://proxy.ccs.ornl.gov:3128/
export http_proxy=http://proxy.ccs.ornl.gov:3128/
export https_proxy=http://proxy.ccs.ornl.gov:3128/
export no_proxy='localhost,127.0.0.0/8,*.ccs.ornl.gov'
module load PyTorch || exit

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# Slurm chooses the cores of each rank.
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=8 --cpus-per-task=7 --gpus-per-task=1 \
    --gpu-bind=closest \
    singularity exec --rocm "$SIF" \
    conda-python-distributed train.py
