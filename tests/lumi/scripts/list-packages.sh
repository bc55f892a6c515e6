#!/bin/bash -e
# Form: list-packages outside and inside the container
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c, 2025
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827

list-packages | grep einops | tr -s ' '
singularity exec $SIF list-packages | grep -c einops
singularity exec $SIF /runscripts/list-packages | grep -c packaging
