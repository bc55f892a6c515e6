#!/bin/bash -e
# Form: start-shell with a command
# Source: LUMI Software Library, PyTorch container user instructions (2024)
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

start-shell -c 'python -c "import einops; print(einops.version)"'
srun start-shell -c 'exit 5' || echo "status $?"
