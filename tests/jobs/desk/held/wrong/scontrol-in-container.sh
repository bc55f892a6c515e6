#!/bin/bash
#SBATCH -A CSC590
#SBATCH -J ddp
#SBATCH -t 00:30:00
#SBATCH -p batch
#SBATCH -N 2
srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm -B /opt/cray,/var/spool/slurmd /lustre/orion/csc590/world-shared/torch.sif bash -c '
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=0
python train.py'
