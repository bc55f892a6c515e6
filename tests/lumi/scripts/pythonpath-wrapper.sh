#!/bin/bash -e
# Form: PYTHONPATH set for one command, python as wrapper
# Source: LUMI Software Library, PyTorch container user instructions (2025)
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827

PYTHONPATH=$PWD/src python -c 'import mymodule; print(mymodule.name)'
