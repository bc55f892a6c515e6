#!/bin/bash
# 2 nodes of cray-ex-gh200 (gh200), ranks on each: 4. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=benchmark
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --time=00:30:00
#SBATCH --nodes=2
# one rank per GPU
#SBATCH --ntasks-per-node=4
# all cores that a job may use, divided among the tasks
#SBATCH --cpus-per-task=72
#SBATCH --gpus-per-node=4
# disable_rdzv_get: for FI_CXI_RDZV_PROTO=alt_read
#SBATCH --network=disable_rdzv_get
# required for every job on cray-ex-gh200
#SBATCH --exclusive

module load PyTorch || exit

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# Slurm binds each rank: socket.
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=4 --cpus-per-task=72 --mpi=pmix \
    --ntasks-per-socket=1 '--distribution=*:block' --cpu-bind=socket \
    singularity run --nv "$SIF" \
    conda-python-distributed benchmark.py
