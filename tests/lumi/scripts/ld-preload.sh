#!/bin/bash -e
# Form: preload the library that ROCm 5.6.1 needs
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c, PyTorch 2.2.2 of 2024
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

singularity exec $SIF bash -c 'echo $LD_PRELOAD'
