#!/bin/bash
#SBATCH --account=project_465000001
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
module load LUMI PyTorch/2.7.1
CPU_BIND="mask_cpu:7e000000000000,7e00000000000000,7e0000,7e000000,7e,7e00,7e00000000,7e0000000000"
cat << EOF > select_gpu
#!/bin/bash
export ROCR_VISIBLE_DEVICES=\$SLURM_LOCALID
exec \$*
EOF
chmod +x ./select_gpu
srun --cpu-bind=${CPU_BIND} singularity exec $SIF bash -c "export ROCR_VISIBLE_DEVICES=\$SLURM_LOCALID; /runscripts/conda-python-simple train.py"
rm -rf ./select_gpu
