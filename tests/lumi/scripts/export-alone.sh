#!/bin/bash -e
# Form: export only the needed variables, and call the runtime by its path
# Source: Lumi-supercomputer/LUMI-AI-Guide, commit a7e3387
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

RUNTIME=$(type -ap singularity | tail -n 1)
srun --export=SIF,SINGULARITY_BIND $RUNTIME exec $SIF bash -c 'ls -d /runscripts /user-software'
