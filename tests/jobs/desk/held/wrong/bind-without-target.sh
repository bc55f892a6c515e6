#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_debug
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=01:00:00
module load singularity PyTorch
srun -c 80 singularity exec --nv --bind /gpfs/scratch/bsc98/data:ro $SIF conda-python-distributed --launcher torchrun train.py
