#!/bin/bash -e
# Form: a job that inherits no environment
# Source: Lumi-supercomputer/LUMI-AI-Guide, commit a7e3387
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
#SBATCH --export=PATH,HOME,BASH_ENV,MODULEPATH
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

unset SLURM_EXPORT_ENV
srun singularity exec $SIF conda-python-simple -c 'print("ran")'
