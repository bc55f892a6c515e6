#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00:00
#SBATCH -p batch
#SBATCH -N 2
module load PyTorch
srun -N2 -n2 --ntasks-per-node=1 cp /lustre/orion/csc590/proj-shared/data.h5 /mnt/bb/$USER/
srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF conda-python-distributed train.py --data /mnt/bb/$USER/data.h5
