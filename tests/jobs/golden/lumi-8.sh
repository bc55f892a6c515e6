#!/bin/bash
# 2 nodes of lumi (lumi-g), on each deepspeed starts the ranks. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=train
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=project_465000001
#SBATCH --time=01:00:00
#SBATCH --partition=standard-g
#SBATCH --nodes=2
# one task per node: deepspeed starts the ranks
#SBATCH --ntasks-per-node=1
# all cores that a job may use
#SBATCH --cpus-per-task=56
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G

module load PyTorch || exit

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# One task per node, with all its cores.
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=1 --cpus-per-task=56 \
    singularity exec "$SIF" \
    conda-python-distributed --launcher deepspeed train.py --deepspeed_config ds_config.json
