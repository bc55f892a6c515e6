#!/bin/bash
#SBATCH --exclusive
#SBATCH --nodes=2 --ntasks-per-node=4 --cpus-per-task=72
#SBATCH --time=01:00:00
set -euo pipefail
module load PyTorch || exit 1
trap 'echo term; exit 1' TERM
srun --mpi=pmix -c 72 --ntasks-per-socket=1 --cpu-bind=socket singularity exec --nv "$SIF" \
   conda-python-distributed train.py ${@:+"$@"}
