#!/bin/bash
#SBATCH --account=project_465000001
#SBATCH --partition=small-g
#SBATCH --gpus=16
#SBATCH --ntasks=16
#SBATCH --cpus-per-task=7
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
srun --cpus-per-task=7 singularity exec "$SIF" conda-python-distributed train.py
