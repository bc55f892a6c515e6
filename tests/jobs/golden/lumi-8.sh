#!/bin/bash
# 1 node of lumi (lumi-g), ranks on each: 8. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=cv_example
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=project_465000001
#SBATCH --time=01:00:00
#SBATCH --partition=standard-g
#SBATCH --nodes=1
# one rank per GPU
#SBATCH --ntasks-per-node=8
# all cores that a job may use, divided among the tasks
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G
# single_node_vni: Slingshot also on a single node
#SBATCH --network=single_node_vni

module load PyTorch || exit

# Copies on every node, verified there and removed when the job ends. "$SIF" then points to the copy; if
# copying fails, it is unchanged.
staged=$("$RUNSCRIPTS"/stage-data /tmp /flash/project_465000001/data-sets/data-resnet-small.tar) || exit
eval "$staged"

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# Each rank of a node gets the cores near its GPU, GPU 0 first.
srun --export=ALL --kill-on-bad-exit=1 --nodes=1 --ntasks-per-node=8 --cpus-per-task=7 \
    --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000 \
    singularity exec --bind .:/workdir "$SIF" \
    conda-python-distributed -u /workdir/cv_example.py -a resnet50 --batch-size 4096 --workers 56 --gpu 0 \
    --dist-url env:// --dist-backend nccl --epochs 2 /staged-data/data-resnet-small/data-resnet
