#!/bin/bash -e
# Form: packages that pip --user installed in ~/.local
# Source: LUMI Software Library, PyTorch container user instructions (2024): pip falls back to ~/.local
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

srun singularity exec $SIF python -c 'import athome; print(athome.version)'
singularity exec $SIF conda-python-simple -c 'import athome; print(athome.version)'
