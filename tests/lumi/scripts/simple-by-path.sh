#!/bin/bash -e
# Form: call conda-python-simple by its path in the container
# Source: LUMI Software Library, PyTorch container user instructions
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
#SBATCH --gpus-per-node=8
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

srun -N1 -n1 --gpus 8 singularity exec $SIF /runscripts/conda-python-simple \
    -c 'import os; print("GPUs:", len(os.environ["ROCR_VISIBLE_DEVICES"].split(",")))'
