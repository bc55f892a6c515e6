#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 00:30:00
#SBATCH -p batch
#SBATCH -N 4
module load PyTorch
export MASTER_ADDR=$(scontrol show hostnames $SLURM_NODELIST | head -1)
export MASTER_PORT=$SLURM_JOB_ID
srun -N4 -n32 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF conda-python-distributed train.py
