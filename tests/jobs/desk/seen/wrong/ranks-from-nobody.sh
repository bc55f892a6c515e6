#!/bin/bash
#SBATCH -A project_465000123
#SBATCH -p small-g
#SBATCH -N 1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=7
#SBATCH -t 0:30:00

module use /appl/local/containers/modules
module load PyTorch/2.7.1-rocm-6.2.4-singularity
srun --cpus-per-task=7 singularity exec $SIF python train.py --epochs 10
