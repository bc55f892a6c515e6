#!/bin/bash -e
# Form: pack the virtual environment, reload, remove the directory, and unpack it again
# Source: LUMI Software Library, PyTorch container user instructions (2024)
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

make-squashfs >/dev/null
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity
rm -rf $CONTAINERROOT/user-software
singularity exec $SIF python -c 'import einops; print("packed", einops.version)'
unmake-squashfs >/dev/null
rm $CONTAINERROOT/user-software.squashfs
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity
singularity exec $SIF python -c 'import einops; print("unpacked", einops.version)'
touch $CONTAINERROOT/user-software/can-be-written
rm $CONTAINERROOT/user-software/can-be-written
