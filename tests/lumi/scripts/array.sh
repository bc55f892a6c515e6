#!/bin/bash -e
# Form: a job array, one image for all jobs
# Source: Lumi-supercomputer/LUMI-AI-Guide, commit a7e3387
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
#SBATCH --array=3
module load PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827

srun singularity exec $SIF conda-python-simple -c 'import os; print("task", os.environ["SLURM_ARRAY_TASK_ID"])'
