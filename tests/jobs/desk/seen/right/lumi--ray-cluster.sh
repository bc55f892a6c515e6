#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=56
#SBATCH --time=02:00:00
module load LUMI PyTorch/2.7.1
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head_node=${nodes[0]}
head_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
port=$((20000 + SLURM_JOB_ID % 10000))
srun --nodes=1 --ntasks=1 -w "$head_node" -c 56 singularity exec $SIF ray start --head --node-ip-address="$head_ip" --port=$port --num-gpus 8 --block &
sleep 20
srun --nodes=1 --ntasks=1 -w "${nodes[1]}" -c 56 singularity exec $SIF ray start --address "$head_ip:$port" --num-gpus 8 --block &
sleep 20
singularity exec $SIF conda-python-simple tune.py
