#!/bin/bash -e
# Form: two modules, each with its own image
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of rocm and PyTorch, commit af6fb1c
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load rocm/6.2.2-singularity
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

singularity exec $SIFROCM rocm-smi | sed 's/^/image: /'
singularity exec $SIFPYTORCH conda-python-simple -c 'print("PyTorch")'
basename $SIF
