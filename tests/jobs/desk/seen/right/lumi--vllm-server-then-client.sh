#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=dev-g
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=56
#SBATCH --mem=480G
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
export HF_HOME=/scratch/project_465000123/hf-cache
srun -c 40 --overlap singularity exec $SIF bash -c '$WITH_CONDA; vllm serve mistralai/Mistral-7B --tensor-parallel-size 8 --port 8000' > vllm.log 2>&1 &
SERVER=$!
until curl -sf http://localhost:8000/health >/dev/null; do sleep 10; done
srun -c 8 --overlap singularity exec $SIF conda-python-simple client.py --url http://localhost:8000
kill $SERVER
