#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
tar -xf /scratch/project_465000123/imagenet.tar -C /tmp
srun singularity exec $SIF conda-python-distributed train.py --data /tmp/imagenet
