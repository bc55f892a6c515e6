#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=56
#SBATCH --gpus-per-node=8
#SBATCH --partition=standard-g
#SBATCH --time=00:10:00
#SBATCH --account=project_465000001

srun singularity exec $HOME/images/train.sif python -u train.py
