#!/bin/bash
#SBATCH --account bsc98
#SBATCH --qos acc_debug
#SBATCH --nodes 2
#SBATCH --ntasks-per-node 1
#SBATCH --gres gpu:4
#SBATCH --cpus-per-task 80
#SBATCH --time 00:20:00
module load singularity
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
srun --cpus-per-task 80 singularity exec --nv /gpfs/projects/bsc98/ngc.sif \
   torchrun --nnodes=2 --nproc_per_node=4 --node_rank=0 --master_addr=$head --master_port=$((10000 + SLURM_JOB_ID % 20000)) train.py
