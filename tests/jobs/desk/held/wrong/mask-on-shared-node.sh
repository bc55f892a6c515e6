#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=7
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
srun --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000 singularity exec $SIF conda-python-distributed train.py
