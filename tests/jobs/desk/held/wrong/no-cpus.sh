#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=8
#SBATCH --mem=240G
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
srun singularity exec $SIF torchrun --standalone --nproc_per_node=8 train.py --workers 7
