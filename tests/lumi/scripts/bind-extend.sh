#!/bin/bash -e
# Form: extend SINGULARITY_BIND
# Source: Lumi-supercomputer/LUMI-AI-Guide, commit a7e3387
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

export SINGULARITY_BIND="$SINGULARITY_BIND,$PWD/src:/my-data"
srun singularity exec $SIF bash -c 'ls /my-data; ls -d /runscripts /opt/cray'
