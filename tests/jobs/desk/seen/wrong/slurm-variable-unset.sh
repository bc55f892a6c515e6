#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=01:00:00
module load singularity
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun -c 80 singularity exec --nv /gpfs/projects/bsc98/pt.sif torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_PER_NODE --rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:$((20000 + SLURM_JOB_ID % 10000)) train.py
