#!/bin/bash -e
# Form: exit status of a program that fails on all ranks
# Source: LUMI Software Library, PyTorch container user instructions
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
#SBATCH --gpus-per-node=8
module load PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827

srun singularity exec $SIF conda-python-distributed -c 'raise SystemExit(3)'
