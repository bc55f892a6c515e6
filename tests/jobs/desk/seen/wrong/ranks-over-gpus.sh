#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus=8
#SBATCH --cpus-per-task=7
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
srun -c7 singularity exec $SIF conda-python-distributed train.py
