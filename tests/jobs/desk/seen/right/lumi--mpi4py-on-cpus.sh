#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small
#SBATCH --nodes=1
#SBATCH --ntasks=32
#SBATCH --mem-per-cpu=2G
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
srun singularity exec $SIF python mpi_reduce.py
