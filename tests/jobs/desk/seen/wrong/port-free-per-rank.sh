#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
srun singularity exec $SIF bash -c 'export MASTER_PORT=$(python -c "import socket; s=socket.socket(); s.bind((\"\",0)); print(s.getsockname()[1])"); conda-python-distributed train.py'
