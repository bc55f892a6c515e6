#!/bin/bash -e
# Form: the host's python3 after loading a module without wrappers
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c, until 2024
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

python3 -c 'import sys; print(sys.prefix)'
type -p pip pip3 || echo "pip is not changed" >/dev/null
