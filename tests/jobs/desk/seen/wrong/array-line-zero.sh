#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_debug
#SBATCH --array=0-9
#SBATCH --ntasks=1
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=20
#SBATCH --time=01:00:00
module load singularity
ARGS=$(sed -n "${SLURM_ARRAY_TASK_ID}p" params.txt)
srun -c 20 singularity exec --nv /gpfs/projects/bsc98/pt.sif python train.py $ARGS
