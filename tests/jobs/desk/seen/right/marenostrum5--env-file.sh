#!/bin/bash
#SBATCH --job-name=llm
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=20
#SBATCH --gres=gpu:4
#SBATCH --time=02:00:00
source ./env.sh
srun --cpus-per-task=20 --kill-on-bad-exit=1 singularity exec --nv $IMAGE ./run_rank.sh python train.py
