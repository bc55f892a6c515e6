#!/bin/bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00
module load LUMI PyTorch/2.7.1
cat > select_gpu <<'EOF'
#!/bin/bash
export ROCR_VISIBLE_DEVICES=$SLURM_LOCALID
export HIP_VISIBLE_DEVICES=$SLURM_LOCALID
exec "$@"
EOF
chmod +x select_gpu
srun ./select_gpu singularity exec $SIF conda-python-distributed train.py
