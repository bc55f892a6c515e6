#!/bin/bash
#SBATCH --account=project_465000001
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
# once, before the ranks start
singularity exec "$SIF" python prepare_vocab.py
( while true; do date; sleep 30; done ) > watch.log &
watch=$!
srun --cpus-per-task=7 singularity exec "$SIF" conda-python-distributed train.py
kill $watch
