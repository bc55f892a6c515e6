#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_debug
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=01:00:00
module load singularity
srun -c 80 singularity exec --nv /gpfs/projects/bsc98/pt.sif torchrun --standalone --nproc_per_node 8 train.py
