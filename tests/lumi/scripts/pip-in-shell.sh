#!/bin/bash -e
# Form: pip in a shell in the container writes to the virtual environment
# Source: LUMI Software Library, PyTorch container user instructions (2024)
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

singularity exec $SIF bash -c 'pip install -q --no-index --find-links $WHEELS needy && pip uninstall -q -y needy && which pip'
