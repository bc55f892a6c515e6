#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00:00
#SBATCH -p batch
#SBATCH -N 2
#SBATCH -C nvme
module load PyTorch
sbcast -pf $SIF /mnt/bb/$USER/torch.sif
srun -N2 -n2 --ntasks-per-node=1 tar -xf /lustre/orion/csc590/proj-shared/data.tar -C /mnt/bb/$USER
srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm /mnt/bb/$USER/torch.sif conda-python-distributed train.py --data /mnt/bb/$USER/data --out /lustre/orion/csc590/scratch/$USER/out
