#!/bin/bash -e
# Form: python and pip outside the container
# Source: LUMI Software Library, PyTorch container user instructions (2025)
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827

python -c 'import sys; print(sys.prefix)'
python3 -c 'print("three")'
pip --version | cut -d' ' -f1
pip show -q einops && echo "einops is there"
python -c 'raise SystemExit(4)' || echo "status $?"
