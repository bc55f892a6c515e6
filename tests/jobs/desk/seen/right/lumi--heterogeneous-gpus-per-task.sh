#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=28
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
export MODEL_PARALLEL=4   # each rank splits the model over four GPUs
srun -c28 --gpus-per-task=4 singularity exec $SIF conda-python-distributed pipeline.py --tensor-parallel 4
