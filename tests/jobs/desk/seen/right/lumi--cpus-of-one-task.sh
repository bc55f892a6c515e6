#!/bin/bash
#SBATCH --account=project_465000001
#SBATCH --partition=standard-g
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=56
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
module --force purge
module load LUMI PyTorch/2.7.1
srun -n8 -c7 singularity exec "$SIF" conda-python-distributed train.py
