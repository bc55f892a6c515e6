#!/bin/bash -e
# Form: environment variables outside and inside the container
# Source: Lumi-supercomputer/LUMI-EasyBuild-containers, easyconfigs of PyTorch, commit af6fb1c
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

echo $(basename $SIF) $(basename $SIFPYTORCH) $(basename $RUNSCRIPTS) $(basename $RUNSCRIPTSPYTORCH) ${EBVERSIONPYTORCH}
[[ $CONTAINERROOT == $EBROOTPYTORCH ]] && echo "same root"
singularity exec $SIF bash -c 'echo $VIRTUAL_ENV ${PATH%%:*}; command -v python'
