#!/bin/bash -e
# Form: read and copy the run scripts as templates
# Source: LUMI Software Library, PyTorch container user instructions
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240209

ls $RUNSCRIPTS/conda-python-simple $EBROOTPYTORCH/runscripts/get-master >/dev/null && echo "both are there"
cp $RUNSCRIPTSPYTORCH/conda-python-simple $TMPDIR/my-own
srun singularity exec -B $TMPDIR $SIF $TMPDIR/my-own -c 'print("my own")'
