#!/bin/bash
# 2 nodes of lumi (lumi-g), ranks on each: 8. Written by `hpcmod job`; edit it as you like.
#SBATCH --job-name=GPT-neo-IMDB-finetuning-mp
# %x is the job name, %j the job ID
#SBATCH --output=%x-%j.out
#SBATCH --account=project_465000001
#SBATCH --time=00:30:00
#SBATCH --partition=standard-g
#SBATCH --nodes=2
# one rank per GPU
#SBATCH --ntasks-per-node=8
# all cores that a job may use, divided among the tasks
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G

module load PyTorch || exit
export HPCMOD_PROFILE_RANK=14 APPTAINERENV_HPCMOD_PROFILE_RANK=14 SINGULARITYENV_HPCMOD_PROFILE_RANK=14
export HPCMOD_PROFILER='rocprof --hip-trace --stats' APPTAINERENV_HPCMOD_PROFILER='rocprof --hip-trace --stats' SINGULARITYENV_HPCMOD_PROFILER='rocprof --hip-trace --stats'

# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}"

# Each rank of a node gets the cores near its GPU, GPU 0 first.
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks-per-node=8 --cpus-per-task=7 \
    --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000 \
    singularity exec --bind .:/workdir "$SIF" \
    conda-python-distributed -u /workdir/GPT-neo-IMDB-finetuning-mp.py --num-workers 7
