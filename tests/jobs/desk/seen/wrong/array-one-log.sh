#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --array=0-7
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=7
#SBATCH --time=00:30:00
#SBATCH --output=sweep.out
module load LUMI PyTorch/2.7.1
srun -c7 singularity exec $SIF conda-python-simple train.py --seed $SLURM_ARRAY_TASK_ID
