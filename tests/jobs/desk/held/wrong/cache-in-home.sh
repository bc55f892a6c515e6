#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=small-g
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=56
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
export HF_HOME=$HOME/.cache/huggingface
srun -c56 singularity exec $SIF conda-python-simple -m vllm.entrypoints.openai.api_server --tensor-parallel-size 8 --model mistralai/Mistral-Large
