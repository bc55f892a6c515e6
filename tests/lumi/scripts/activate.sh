#!/bin/bash -e
# Form: source the virtual environment's own activate script, then deactivate
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c, 2024
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

singularity exec $SIF bash -c 'source /user-software/venv/pytorch/bin/activate; which python; echo $VIRTUAL_ENV; deactivate; echo ${VIRTUAL_ENV-none}'
