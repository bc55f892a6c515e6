#!/bin/bash -e
# Form: a user's bind on the command line
# Source: Lumi-supercomputer/Getting_Started_with_AI_workshop, 09_Extreme_scale_AI, commit ea1da16
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

srun singularity exec -B .:/workdir $SIF bash -c 'cd /workdir && ls src && conda-python-simple src/mymodule.py'
