#!/bin/bash
#SBATCH -A ABC123
#SBATCH -t 00:05:00
#SBATCH -p batch
#SBATCH -N 2

module load PyTorch

srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest \
    apptainer exec --rocm -B /usr/lib64/libxpmem.so.0 -B .:/workdir "$SIF" conda-python-distributed train.py
