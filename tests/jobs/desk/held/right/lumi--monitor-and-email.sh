#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00
#SBATCH --mail-user=me@example.org --mail-type=END
module load LUMI PyTorch/2.7.1
export SINGULARITYENV_NCCL_DEBUG=INFO
export SINGULARITYENV_PREPEND_PATH=/user-software/bin
( while sleep 60; do rocm-smi --showuse; done ) > gpu.log &
monitor=$!
trap 'kill $monitor' EXIT
srun singularity exec $SIF conda-python-distributed train.py
sacct -j $SLURM_JOB_ID --format=JobID,Elapsed,MaxRSS
