#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_debug
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=20
#SBATCH --time=01:00:00
module load singularity
srun -c 20 singularity exec --nv /gpfs/projects/bsc98/pt.sif python finetune.py --device cuda
