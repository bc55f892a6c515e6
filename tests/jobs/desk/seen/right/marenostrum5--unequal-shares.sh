#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --time=00:10:00
#SBATCH --nodes=4
#SBATCH --ntasks=6
#SBATCH --cpus-per-task=20
#SBATCH --gres=gpu:4

module load singularity
module load PyTorch/2.7.1-rocm-6.2.4-singularity

srun --cpus-per-task=$SLURM_CPUS_PER_TASK singularity exec --nv $SIF conda-python-distributed train.py
