#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_debug
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=01:00:00
module load singularity PyTorch
NCCL_DEBUG=INFO
srun -c 80 singularity exec --nv $SIF conda-python-distributed --launcher torchrun train.py
