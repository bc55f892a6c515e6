#!/bin/bash
#SBATCH -A CSC590
#SBATCH -t 02:00:00
#SBATCH -p batch
#SBATCH -N 2
##SBATCH -q debug
module load PyTorch
: "${EPOCHS:=10}"
opts=(--epochs "$EPOCHS" --note "isn't it; a 'quoted' thing & more")
[[ -d out ]] || mkdir out
if (( SLURM_NNODES > 1 )); then opts+=(--sync); fi
case ${MODE:-train} in
  train) prog=train.py ;;
  eval)  prog=eval.py ;;
esac
time srun -N2 -n16 -c7 --gpus-per-task=1 --gpu-bind=closest \
    apptainer exec --rocm "$SIF" \
    conda-python-distributed "$prog" "${opts[@]}" |& tee "out/$SLURM_JOB_ID.log"
exit "${PIPESTATUS[0]}"
