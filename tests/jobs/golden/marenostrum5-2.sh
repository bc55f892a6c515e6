#!/bin/bash
# 2 nodes of marenostrum5 (acc), on each torchrun starts the ranks. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=batched_execution
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --time=00:02:00
#SBATCH --nodes=2
# one task per node: torchrun starts the ranks
#SBATCH --ntasks-per-node=1
# 20 for each GPU, as marenostrum5 requires
#SBATCH --cpus-per-task=80
#SBATCH --gres=gpu:4
#SBATCH --output=benchmark/reports/R-%x.%j.out

module load singularity || exit
module load PyTorch || exit

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# One task per node, with all its cores.
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=1 --cpus-per-task=80 \
    singularity exec --nv "$SIF" \
    conda-python-distributed --launcher torchrun benchmark/all_reduce_bench.py
