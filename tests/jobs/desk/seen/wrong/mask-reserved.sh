#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
srun --cpu-bind=mask_cpu:0xff000000000000,0xff00000000000000,0xff0000,0xff000000,0xff,0xff00,0xff00000000,0xff0000000000 singularity exec $SIF conda-python-distributed train.py
