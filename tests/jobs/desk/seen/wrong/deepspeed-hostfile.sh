#!/bin/bash
#SBATCH --account=bsc98
#SBATCH --qos=acc_bsccs
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=80
#SBATCH --time=24:00:00
module load singularity
scontrol show hostnames $SLURM_JOB_NODELIST | sed 's/$/ slots=4/' > hostfile
singularity exec --nv /gpfs/projects/bsc98/ds.sif deepspeed --hostfile hostfile pretrain.py --deepspeed_config ds.json
