#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00:00
#SBATCH -p batch
#SBATCH -N 32
#SBATCH --array=1-5%1
#SBATCH -o logs/%x-%A_%a.out
module load PyTorch
unset SLURM_EXPORT_ENV
srun -N32 -n256 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF conda-python-distributed train.py --resume latest
