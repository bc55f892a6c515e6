#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
module load LUMI PyTorch/2.7.1
srun singularity exec $SIF conda-python-distributed train.py --resume
