#!/bin/bash
#SBATCH --account=project_465000001
#SBATCH --partition=small
#SBATCH --ntasks=32
#SBATCH --time=02:00:00

module load cray-python
python analyse.py --input results.nc
