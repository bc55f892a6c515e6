#!/bin/bash -e
# Form: call conda-python-simple by name, and use the image variable named after the package
# Source: LUMI Software Library, PyTorch container user instructions
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827

srun singularity exec $SIFPYTORCH conda-python-simple -c 'import sys; print(sys.argv[1:])' 'two words' "a'b"
