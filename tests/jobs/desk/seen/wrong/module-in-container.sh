#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
srun singularity exec $SIF bash -c 'module load rocm/6.2.2; conda-python-distributed train.py'
