#!/bin/bash
# 64 nodes of lumi (lumi-g), ranks on each: 8. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=train
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=project_465000001
#SBATCH --time=02:00:00
#SBATCH --partition=standard-g
#SBATCH --nodes=64
# one rank per GPU
#SBATCH --ntasks-per-node=8
# all cores that a job may use, divided among the tasks
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G
# job_vni: Slingshot for concurrent steps
#SBATCH --network=job_vni

module load PyTorch || exit

# Copies on every node, verified there and removed when the job ends. "$SIF" then points to the copy; if
# copying fails, it is unchanged.
staged=$("$RUNSCRIPTS"/stage-image /tmp) || exit
eval "$staged"
staged=$("$RUNSCRIPTS"/stage-data /tmp /scratch/me/train.squashfs) || exit
eval "$staged"

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# Each rank of a node gets the cores near its GPU, GPU 0 first.
srun --export=ALL --kill-on-bad-exit=1 --nodes=64 --ntasks-per-node=8 --cpus-per-task=7 \
    --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000 \
    singularity exec "$SIF" \
    conda-python-distributed train.py /staged-data/train
