#!/bin/bash -e
# Form: get-master with a list of nodes
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

singularity exec $SIF get-master $SLURM_JOB_NODELIST
singularity exec $SIF /runscripts/get-master 'nid[005023-005026]'
