#!/bin/bash -e
# Form: call conda-python-distributed by its path, as before March 2024
# Source: LUMI Software Library, PyTorch container user instructions, note on older installations
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
#SBATCH --gpus-per-node=8
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

srun singularity exec $SIF /runscripts/conda-python-distributed -u $RANKS | sort
