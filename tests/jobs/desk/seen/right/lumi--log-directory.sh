#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00
#SBATCH --output=logs/%x-%j.out
mkdir -p logs
module load LUMI PyTorch/2.7.1
srun singularity exec $SIF conda-python-distributed train.py
