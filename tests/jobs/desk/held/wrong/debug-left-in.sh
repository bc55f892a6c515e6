#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00:00
#SBATCH -p batch
#SBATCH -N 16
module load PyTorch
export HIP_LAUNCH_BLOCKING=1
srun -N16 -n128 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF conda-python-distributed train.py
