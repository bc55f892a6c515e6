#!/bin/bash -e
# Form: WITH_CONDA in a shell in the container
# Source: LUMI Software Library, PyTorch container user instructions
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

singularity exec $SIF bash -c '$WITH_CONDA; python -c "import sys; print(sys.base_prefix)"; echo $CONDA_DEFAULT_ENV'
