#!/bin/bash
# 2 nodes of marenostrum5 (acc), ranks on each: 4. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=my_first_distributed_app
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --time=00:02:00
#SBATCH --nodes=2
# one rank per GPU
#SBATCH --ntasks-per-node=4
# 20 for each GPU, as marenostrum5 requires
#SBATCH --cpus-per-task=20
#SBATCH --gres=gpu:4

module load singularity || exit
module load PyTorch || exit

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# Slurm chooses the cores of each rank.
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=4 --cpus-per-task=20 \
    singularity exec --nv "$SIF" \
    conda-python-distributed my_first_distributed_app.py
