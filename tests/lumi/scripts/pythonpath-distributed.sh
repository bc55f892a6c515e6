#!/bin/bash -e
# Form: PYTHONPATH extended after loading, distributed
# Source: Lakoc/huggingface_asr, scripts for LUMI
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
#SBATCH --gpus-per-node=8
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

export PYTHONPATH=$PWD/src:$PYTHONPATH
srun singularity exec $SIF conda-python-distributed -c 'import mymodule; print(mymodule.name)'
