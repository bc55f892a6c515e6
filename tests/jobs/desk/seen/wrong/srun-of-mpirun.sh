#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --exclusive
#SBATCH --time=01:00:00
srun --mpi=pmi2 -c 72 singularity exec --nv /projects/bench/nccl.sif mpirun -n 8 ./all_reduce_perf -b 8 -e 1G
