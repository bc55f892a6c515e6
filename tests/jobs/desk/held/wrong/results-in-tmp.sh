#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
srun singularity exec $SIF conda-python-distributed train.py --output-dir /tmp/results
