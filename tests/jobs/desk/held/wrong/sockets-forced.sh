#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --exclusive
#SBATCH --time=01:00:00
module load PyTorch
export NCCL_NET=Socket
srun --mpi=pmi2 -c 72 singularity run --nv $SIF conda-python-distributed train.py
