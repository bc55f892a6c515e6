#!/bin/bash
# 1 node of lumi (lumi-g), ranks on each: 1. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=import_torch__print_torch.cuda.device_count___
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=project_465000001
#SBATCH --time=00:05:00
#SBATCH --partition=standard-g
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
# all cores that a job may use
#SBATCH --cpus-per-task=56
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G
# single_node_vni: Slingshot also on a single node
#SBATCH --network=single_node_vni

module load PyTorch || exit

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# One task per node, with all its cores.
srun --export=ALL --kill-on-bad-exit=1 --nodes=1 --ntasks-per-node=1 --cpus-per-task=56 \
    singularity exec "$SIF" \
    conda-python-distributed -c 'import torch; print(torch.cuda.device_count())'
