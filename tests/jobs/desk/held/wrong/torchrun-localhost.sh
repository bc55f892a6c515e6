#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=56
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
PORT=$((10000 + SLURM_JOB_ID % 20000))
srun -c 56 singularity exec $SIF torchrun --nnodes=4 --nproc_per_node=8 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=localhost:$PORT train.py
