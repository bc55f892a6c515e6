#!/bin/bash
#SBATCH --job-name batched_execution
#SBATCH --output reports/R-%x.%j.out
#SBATCH --nodes 2
#SBATCH --ntasks-per-node 1
#SBATCH --gres gpu:4
#SBATCH --cpus-per-task 80
#SBATCH --time 00:02:00
#SBATCH --account bsc98
#SBATCH --qos acc_debug

module load PyTorch

srun --cpus-per-task $SLURM_CPUS_PER_TASK \
    singularity exec /gpfs/projects/bsc98/PyTorch.sif \
    conda-python-distributed --launcher torchrun train.py
