#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_debug
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=20
#SBATCH --time=01:00:00
module load singularity
CONTAINER=/gpfs/projects/bsc98/vllm.sif
srun -c 20 singularity exec --nv "$CONTANER" python generate.py --prompts prompts.txt
