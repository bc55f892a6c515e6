#!/bin/bash
#SBATCH --job-name bench
#SBATCH --nodes 2
#SBATCH --ntasks-per-node 1
#SBATCH --gres gpu:4
#SBATCH --cpus-per-task 80
#SBATCH --time 00:02:00
#SBATCH --account bsc98
#SBATCH --qos acc_bsccs
module load singularity AI/PyTorch/2.7.1
export CUDA_VISIBLE_DEVICES=0,1,2,3
srun --cpus-per-task $SLURM_CPUS_PER_TASK singularity exec --nv $SIFPYTORCH conda-python-distributed --launcher torchrun bench.py
