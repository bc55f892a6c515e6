#!/bin/bash -e
# Form: conda-python-distributed with a CPU mask for each GPU, and variables for the container
# Source: LUMI Software Library, PyTorch container user instructions
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=7
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

export SINGULARITYENV_NCCL_DEBUG=INFO
export SINGULARITYENV_NCCL_DEBUG_SUBSYS=INIT,COLL
c=fe
MYMASKS="0x${c}000000000000,0x${c}00000000000000,0x${c}0000,0x${c}000000,0x${c},0x${c}00,0x${c}00000000,0x${c}0000000000"
srun --cpu-bind=mask_cpu:$MYMASKS singularity exec $SIFPYTORCH conda-python-distributed -u $RANKS | sort
