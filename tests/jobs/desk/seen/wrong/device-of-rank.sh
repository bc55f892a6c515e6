#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-task=1
#SBATCH --partition=standard-g
#SBATCH --time=00:10:00
#SBATCH --account=project_465000001

module load PyTorch/2.7.1-rocm-6.2.4-singularity

srun singularity exec $SIF conda-python-distributed train.py --gpu \$LOCAL_RANK
