#!/bin/bash -l
#SBATCH --account=project_465000001
#SBATCH --partition=small
#SBATCH --nodes=1 --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --array=0-3
#SBATCH --time=01:00:00
module use /appl/x
ml PyTorch/2.7.1
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
for i in 1 2; do
  srun -u --label singularity exec -B "$PWD:/work" "$SIF" conda-python-distributed -u train.py --seed "$i" --lr 1e-3 &
done
wait
