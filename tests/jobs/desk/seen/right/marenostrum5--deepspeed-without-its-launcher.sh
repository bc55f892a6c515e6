#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=20
#SBATCH --gres=gpu:4
#SBATCH --time=10:00:00
module load singularity
export SIMG=/gpfs/projects/bsc98/ds.sif
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export TRITON_CACHE_DIR=$TMPDIR/triton
srun --cpus-per-task=$SLURM_CPUS_PER_TASK bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec singularity exec --nv $SIMG python pretrain.py --deepspeed --deepspeed_config ds.json'
