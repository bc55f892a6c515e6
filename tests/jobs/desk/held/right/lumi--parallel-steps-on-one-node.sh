#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=1
#SBATCH --ntasks=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --time=02:00:00
module load LUMI PyTorch/2.7.1
for seed in {1..8}; do
    srun --exact -N1 -n1 -c7 --gpus=1 --mem=55G singularity exec "$SIF" conda-python-simple train.py --seed $seed > seed-$seed.log 2>&1 &
done
wait
