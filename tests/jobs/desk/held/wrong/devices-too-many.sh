#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=288
#SBATCH --exclusive
#SBATCH --time=01:00:00
module load PyTorch
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
srun --mpi=pmi2 -c 288 singularity run --nv $SIF torchrun --standalone --nproc_per_node=4 train.py
