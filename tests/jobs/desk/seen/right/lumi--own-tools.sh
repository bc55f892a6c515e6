#!/bin/bash
#SBATCH --account=project_465000001
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
module load LUMI PyTorch/2.7.1
export TRITON_CACHE_DIR=$TMPDIR/triton
export LD_LIBRARY_PATH=$HOME/tools/lib:$LD_LIBRARY_PATH
mlflow ui --backend-store-uri sqlite:///x --port 5000 &
srun mkdir -p /tmp/x
SIFX=$SIF
srun -c7 singularity exec $SIF conda-python-distributed train.py --tracker tcp://nid001:5555
if ! srun -c7 singularity exec "$SIF" bash -c 'sleep 0.$SLURM_LOCALID; conda-python-distributed train.py'; then echo no; fi
timeout 3000 srun -c7 singularity exec "$SIF" conda-python-distributed train.py
