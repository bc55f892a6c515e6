#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=128
#SBATCH --time=02:00:00
module load LUMI/24.03 partition/C singularity-bindings
srun singularity exec -B /scratch/project_465000123 /project/project_465000123/openfoam.sif simpleFoam -parallel -case /scratch/project_465000123/case
