#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --time=00:30:00

module load PyTorch

srun -n 8 --ntasks-per-node=4 --distribution=*:block --cpu-bind=socket \
    --ntasks-per-socket=1 -c 72 \
    singularity run --nv "$SIF" \
    conda-python-distributed benchmark.py >& benchmark-out-n8-ppn4.txt
