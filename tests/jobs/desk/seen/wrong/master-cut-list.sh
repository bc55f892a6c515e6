#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 00:30:00
#SBATCH -p batch
#SBATCH -N 4
module load PyTorch
export MASTER_ADDR=$(echo $SLURM_JOB_NODELIST | cut -d, -f1)
srun -N4 -n32 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF conda-python-distributed train.py
