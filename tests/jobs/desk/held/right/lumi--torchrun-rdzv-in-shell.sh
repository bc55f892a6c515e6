#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=56
#SBATCH --time=01:00:00
module use /appl/local/containers/ai-modules
module load singularity-AI-bindings
CONTAINER="/appl/local/containers/sif-images/lumi-pytorch-rocm-6.2.4.sif"
export RDZV_HOST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export RDZV_PORT=$((29400 + SLURM_JOB_ID % 500))
export OMP_NUM_THREADS=7
srun -c 56 singularity exec -B /scratch/project_465000123:/workdir "${CONTAINER}" bash -c "\$WITH_CONDA; torchrun --nnodes=\$SLURM_NNODES --nproc_per_node=8 --rdzv_id=\$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=\$RDZV_HOST:\$RDZV_PORT train.py"
