#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --ntasks=1
#SBATCH --gpus=1
#SBATCH --cpus-per-task=7
#SBATCH --mem=60G
#SBATCH --time=04:00:00
module load LUMI PyTorch/2.7.1
port=$(shuf -i 20000-30000 -n 1)
echo "ssh -L 8888:$(hostname):$port"
singularity exec $SIF jupyter lab --no-browser --ip=$(hostname) --port=$port
