#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=48:00:00
#SBATCH --signal=USR1@120
module load singularity PyTorch
trap 'echo requeue; scontrol requeue $SLURM_JOB_ID' USR1
srun -c 80 singularity exec --nv $SIF conda-python-distributed --launcher torchrun train.py &
wait
