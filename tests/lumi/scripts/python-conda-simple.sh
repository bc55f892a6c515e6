#!/bin/bash -e
# Form: python-conda-simple, as in the TensorFlow, AlphaFold and mpi4py modules
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of TensorFlow, commit af6fb1c
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load TensorFlow/2.16.1-rocm-6.2.0-singularity

srun singularity exec $SIFTENSORFLOW /runscripts/python-conda-simple -c 'import packaging; print(packaging.__name__)'
