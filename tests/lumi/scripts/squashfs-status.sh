#!/bin/bash -e
# Form: exit statuses of make-squashfs and unmake-squashfs
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c, 2024
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.7.1-rocm-6.2.4-python-3.12-singularity-20250827

unmake-squashfs >/dev/null 2>&1 || echo "nothing to unpack: $?"
make-squashfs >/dev/null 2>&1 && echo "packed"
make-squashfs >/dev/null 2>&1 || echo "packed already: $?"
unmake-squashfs >/dev/null 2>&1 || echo "a directory is there: $?"
rm $CONTAINERROOT/user-software.squashfs
