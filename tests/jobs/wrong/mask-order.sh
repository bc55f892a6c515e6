#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --partition=standard-g
#SBATCH --time=00:10:00
#SBATCH --account=project_465000001

module load PyTorch/2.7.1-rocm-6.2.4-singularity
c=fe
MASKS="0x${c},0x${c}00,0x${c}0000,0x${c}000000,0x${c}00000000,0x${c}0000000000,0x${c}000000000000,0x${c}00000000000000"

srun --cpu-bind=mask_cpu:$MASKS singularity exec $SIF conda-python-distributed train.py
