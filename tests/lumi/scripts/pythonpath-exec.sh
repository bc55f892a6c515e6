#!/bin/bash -e
# Form: PYTHONPATH set after loading, singularity exec
# Source: Lakoc/huggingface_asr, scripts for LUMI
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

export PYTHONPATH=$PWD/src
singularity exec $SIF python -c 'import mymodule; print(mymodule.name)'
srun singularity exec $SIF conda-python-simple -c 'import mymodule; print(mymodule.name)'
