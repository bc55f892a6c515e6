#!/bin/bash
#SBATCH -A ABC123
#SBATCH -J ddp
#SBATCH -t 00:05:00
#SBATCH -p batch
#SBATCH -N 2
module load PyTorch
srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest singularity exec "$SIF" conda-python-distributed -u train.py
