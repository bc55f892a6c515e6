#!/bin/bash -e
# Form: WITH_VENV in a shell with set -eu
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c, 2024
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

singularity exec $SIF bash -euc '$WITH_VENV; echo $VIRTUAL_ENV; python -c "import einops; print(einops.version)"'
