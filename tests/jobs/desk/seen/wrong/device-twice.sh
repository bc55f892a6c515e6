#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 00:30:00
#SBATCH -p batch
#SBATCH -N 2
module load PyTorch
srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF bash -c 'export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; conda-python-distributed train.py'
