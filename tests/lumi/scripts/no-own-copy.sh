#!/bin/bash -e
# Form: the site's image after the user's copy was removed
# Source: LUMI Software Library, PyTorch container user instructions
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load TensorFlow/2.16.1-rocm-6.2.0-singularity

mv $SIF $SIF.away
trap 'mv $OWN.away $OWN' EXIT
OWN=$SIF
module load TensorFlow/2.16.1-rocm-6.2.0-singularity
[[ $SIF != $OWN ]] && basename $SIF
singularity exec $SIF /runscripts/conda-python-simple -c 'print("of the site")'
