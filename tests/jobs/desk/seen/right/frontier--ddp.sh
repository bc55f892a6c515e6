#!/bin/bash
#SBATCH -A ABC123
#SBATCH -J ddp_test
#SBATCH -o logs/ddp_test-%j.o
#SBATCH -e logs/ddp_test-%j.e
#SBATCH -t 00:05:00
#SBATCH -p batch
#SBATCH -N 2

# for: sbatch --export=NONE
unset SLURM_EXPORT_ENV

module load PyTorch

srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest \
    apptainer exec --rocm "$SIF" \
    conda-python-distributed -W ignore -u ./multinode_olcf.py 2000 10
