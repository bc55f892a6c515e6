#!/bin/bash
# 1 node of marenostrum5 (gpp), ranks on each: 4. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=preprocess
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=bsc98
#SBATCH --qos=gp_debug
#SBATCH --time=00:30:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
# all cores that a job may use, divided among the tasks
#SBATCH --cpus-per-task=28

module load singularity || exit
module load PyTorch || exit

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# Slurm chooses the cores of each rank.
srun --export=ALL --kill-on-bad-exit=1 --nodes=1 --ntasks-per-node=4 --cpus-per-task=28 \
    singularity exec "$SIF" \
    conda-python-distributed preprocess.py
