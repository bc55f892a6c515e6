#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=56
#SBATCH --time=04:00:00
module load LUMI PyTorch/2.7.1
srun -c 56 singularity exec $SIF deepspeed --num_gpus 8 train.py --deepspeed ds_config.json
