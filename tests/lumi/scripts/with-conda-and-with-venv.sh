#!/bin/bash -e
# Form: WITH_CONDA and WITH_VENV with &&, as in scripts with several commands on one line
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c, 2024
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

srun singularity exec $SIF bash -c '$WITH_CONDA && $WITH_VENV && python -c "import einops; print(einops.version)"'
