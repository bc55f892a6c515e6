#!/bin/bash
#SBATCH -J eval
#SBATCH -A bsc98
#SBATCH -q acc_debug
#SBATCH -t 0-01:00
#SBATCH -N 1
#SBATCH -n 1
#SBATCH -c 20
#SBATCH --gres=gpu:1
#SBATCH -o %x-%j.log
module load singularity || exit 1
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
MODEL=${MODEL:?set MODEL when you submit}
IMAGE=${IMAGE:-/gpfs/projects/bsc98/lm-eval.sif}
singularity exec --nv -B "/gpfs/projects/bsc98:/work:ro" "$IMAGE" lm_eval --model hf --model_args pretrained="$MODEL" --tasks hellaswag --device cuda:0
