#!/bin/bash -l
#SBATCH --job-name=gromacs
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=1-00:00:00
cat << EOF > select_gpu
#!/bin/bash
export ROCR_VISIBLE_DEVICES=\$SLURM_LOCALID
exec \$*
EOF
chmod +x ./select_gpu
CPU_BIND="mask_cpu:fe000000000000,fe00000000000000"
CPU_BIND="${CPU_BIND},fe0000,fe000000"
CPU_BIND="${CPU_BIND},fe,fe00"
CPU_BIND="${CPU_BIND},fe00000000,fe0000000000"
export OMP_NUM_THREADS=6
export MPICH_GPU_SUPPORT_ENABLED=1
export SINGULARITY_BIND=/opt/cray,/var/spool/slurmd,/usr/lib64/libcxi.so.1,/scratch
srun --cpu-bind=${CPU_BIND} ./select_gpu singularity exec /project/project_465000123/gromacs-rocm.sif gmx_mpi mdrun -s topol.tpr -deffnm md
rm -rf ./select_gpu
