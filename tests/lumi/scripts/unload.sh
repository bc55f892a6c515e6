#!/bin/bash -e
# Form: unloading leaves nothing behind
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827

module unload PyTorch
echo "${SIF-none} ${SIFPYTORCH-none} ${SINGULARITY_BIND-none} ${SINGULARITYENV_PREPEND_PATH-none}"
