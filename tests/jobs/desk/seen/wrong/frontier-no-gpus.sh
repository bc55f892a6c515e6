#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00:00
#SBATCH -p batch
#SBATCH -N 2
module load PyTorch
srun -N2 -n16 -c7 apptainer exec --rocm $SIF conda-python-distributed train.py
