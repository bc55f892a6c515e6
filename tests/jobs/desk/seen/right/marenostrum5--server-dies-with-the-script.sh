#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_debug
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=01:00:00
module load singularity
SIMG=/gpfs/projects/bsc98/vllm-0.8.sif
singularity exec --nv $SIMG vllm serve /gpfs/projects/bsc98/models/Llama-3.1-70B --tensor-parallel-size 4 &
while ! curl -s localhost:8000/v1/models > /dev/null; do sleep 5; done
singularity exec $SIMG python batch_inference.py --url http://localhost:8000/v1
