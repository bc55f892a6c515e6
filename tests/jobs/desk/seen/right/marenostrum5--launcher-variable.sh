#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=02:00:00

module purge
module load singularity

GPUS_PER_NODE=4
NNODES=$SLURM_NNODES
WORLD_SIZE=$((GPUS_PER_NODE * NNODES))
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))

LAUNCHER="accelerate launch \
    --multi_gpu --mixed_precision bf16 \
    --num_processes $WORLD_SIZE \
    --num_machines $NNODES \
    --machine_rank \$SLURM_PROCID \
    --main_process_ip $MASTER_ADDR \
    --main_process_port $MASTER_PORT"

CMD="$LAUNCHER sft.py --config sft.yaml"
srun --cpus-per-task=80 singularity exec --nv -B /gpfs/projects:/gpfs/projects /gpfs/projects/bsc98/trl.sif bash -c "$CMD"
