#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=7
#SBATCH --mem=240G
#SBATCH --time=12:00:00
module load LUMI PyTorch/2.7.1
# PyTorch Lightning reads Slurm's variables by itself
srun -c7 singularity exec "$SIF" python train_lightning.py --devices 4 --num_nodes 1
