#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=56
#SBATCH --mem=480G
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
srun -c56 singularity exec $SIF accelerate launch --multi_gpu --num_processes 8 run_clm.py --output_dir out
