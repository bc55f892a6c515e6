#!/bin/bash
#SBATCH -A CSC590
#SBATCH -J ddp
#SBATCH -o ddp-%j.out
#SBATCH -t 00:30:00
#SBATCH -p batch
#SBATCH -N 2
export http_proxy=http://proxy.ccs.ornl.gov:3128/
export https_proxy=http://proxy.ccs.ornl.gov:3128/
export MASTER_ADDR=$(hostname -i)
export NCCL_SOCKET_IFNAME=hsn0
export MIOPEN_USER_DB_PATH="/tmp/my-miopen-cache-$SLURM_JOB_ID"
export MIOPEN_CUSTOM_CACHE_DIR=${MIOPEN_USER_DB_PATH}
# ranks come from mpi4py
srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest apptainer exec --rocm -B /opt/cray,/var/spool/slurmd,/usr/lib64/libcxi.so.1 /lustre/orion/csc590/world-shared/torch.sif \
   python3 -W ignore -u ./multinode_olcf.py 2000 10 --master_addr=$MASTER_ADDR
