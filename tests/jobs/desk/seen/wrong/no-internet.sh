#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00:00
#SBATCH -p batch
#SBATCH -N 1
module load PyTorch
apptainer exec $SIF huggingface-cli download meta-llama/Llama-3.1-8B --local-dir model
srun -N1 -n8 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm $SIF conda-python-distributed train.py --model model
