#!/bin/bash -e
# Form: WITH_CONDA in a shell that reads a here-document
# Source: LUMI Software Library, PyTorch container user instructions
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

singularity exec $SIF bash <<'END'
$WITH_CONDA
python -c "import sys; print(sys.base_prefix)"
python -c 'import packaging; print(packaging.__name__)'
END
