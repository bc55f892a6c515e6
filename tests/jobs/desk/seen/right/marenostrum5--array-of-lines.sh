#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_debug
#SBATCH --array=1-10%4
#SBATCH --ntasks=1
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=20
#SBATCH --time=01:00:00
#SBATCH --output=logs/%A_%a.out
set -euo pipefail
module load singularity
ARGS=$(sed -n "${SLURM_ARRAY_TASK_ID}p" params.txt)
OUT=runs/${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
mkdir -p "$OUT"
srun -c 20 singularity exec --nv /gpfs/projects/bsc98/pt.sif python train.py $ARGS --out "$OUT"
