#!/bin/bash
#SBATCH --account=project_465000001
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
c=fe
MYMASKS="0x${c}000000000000,0x${c}00000000000000,0x${c}0000,0x${c}000000,0x${c},0x${c}00,0x${c}00000000,0x${c}0000000000"
srun hostname
srun --ntasks-per-node=1 mkdir -p /tmp/data
srun -N1 -n1 --gpus=0 date
srun --cpu-bind=mask_cpu:$MYMASKS singularity exec $SIF conda-python-distributed -u train.py
srun -N 1 -n 4 --cpu-bind=mask_cpu:$MYMASKS singularity exec $SIF conda-python-distributed -u eval.py
