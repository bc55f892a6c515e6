#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --account=bsc99
#SBATCH --qos=acc_bsccs
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=20
#SBATCH --gres=gpu:4
#SBATCH --time=02:00:00
#SBATCH --output=%x_%j.out

module load singularity
IMG=/gpfs/projects/bsc99/containers/pytorch_24.05.sif
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export WORLD_SIZE=$SLURM_NTASKS
srun --cpus-per-task=20 singularity exec --nv --bind /gpfs/projects $IMG python main_ddp.py --batch-size 256
