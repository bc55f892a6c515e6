#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --array=0-3
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=7
#SBATCH --mem=60G
#SBATCH --time=03:00:00
module load LUMI PyTorch/2.7.1
RATES=(1e-3 3e-4 1e-4 3e-5)
LR=${RATES[$SLURM_ARRAY_TASK_ID]}
srun -c7 singularity exec "$SIF" conda-python-simple train.py --lr "$LR" --name "run-$SLURM_ARRAY_TASK_ID"
