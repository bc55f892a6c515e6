#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00
#SBATCH -p batch
#SBATCH -N 32
module load PyTorch
srun -N32 -n256 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF conda-python-distributed train.py
