#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=288
#SBATCH --exclusive
#SBATCH --time=06:00:00
set -e
IMAGE=/projects/nlp/pytorch-24.10-aarch64.sif
srun --mpi=pmi2 -c 288 apptainer exec --nv -B /projects $IMAGE \
    torchrun --standalone --nproc-per-node=4 finetune.py --config llama.yaml
