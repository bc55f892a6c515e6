#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --exclusive
#SBATCH --time=02:00:00
export FI_MR_CACHE_MONITOR=userfaultfd
export FI_CXI_DISABLE_HOST_REGISTER=1
export NCCL_NET="AWS Libfabric"
export NCCL_DEBUG=WARN
module load PyTorch
srun --mpi=pmix -c 72 --cpu-bind=cores singularity run --nv -B /projects,$PWD $SIF conda-python-distributed train.py
