#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=7
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
srun --pty -c7 singularity shell $SIF
