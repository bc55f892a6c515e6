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

srun -N2 -n2 --ntasks-per-node=1 -c56 --gpus-per-node=8 \
    apptainer exec --rocm "$SIF" \
    torchrun --nproc_per_node=8 --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$head:$port ./multinode_olcf.py 2000 10
