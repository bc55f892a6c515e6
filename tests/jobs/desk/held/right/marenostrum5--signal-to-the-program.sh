#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=48:00:00
#SBATCH --signal=USR1@120
module load singularity
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / 4))
srun -c $SLURM_CPUS_PER_TASK bash -c "singularity exec --nv --bind /gpfs/projects,/gpfs/scratch /gpfs/projects/bsc98/ngc-24.05.sif torchrun \
   --nnodes=$SLURM_NNODES --nproc_per_node=4 --node_rank=\$SLURM_NODEID --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py"
