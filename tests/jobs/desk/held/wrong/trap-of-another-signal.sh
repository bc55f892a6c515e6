#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00:00
#SBATCH -p batch
#SBATCH -N 2
#SBATCH --signal=B:USR2@180
module load PyTorch
trap 'scontrol requeue $SLURM_JOB_ID' TERM
srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF conda-python-distributed train.py &
wait
