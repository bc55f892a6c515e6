# Our own steps next to those of the job: one task per node, which takes no resources from them. Only this file runs programs
# of the scheduler.
_small=(--cpus-per-task=1 --gres=none)

need_nodes() { # -> _nodes
  _nodes=$_job_nodes
  [[ $_job && $_nodes == [1-9]* && $_nodes != *[!0-9]* ]] || stop 2 "not inside a Slurm job: $1"
}

# Options of sbatch are not meant for our steps, but srun reads them from the environment.
plan_step() { # NAME OPTIONS -> _srun
  # shellcheck disable=SC2086 # a list of names
  unset -v ${!SLURM_GPU*} ${!SLURM_MEM_PER_*} ${!SLURM_TRES_PER_*} ${!SLURM_NTASKS_PER_*} SLURM_CPUS_PER_GPU \
    SLURM_CPU_BIND SLURM_DISTRIBUTION SLURM_HINT SLURM_THREADS_PER_CORE SLURM_EXCLUSIVE SLURM_CPUS_PER_TASK
  _srun=(srun --nodes="$_nodes" --ntasks="$_nodes" --overlap --ntasks-per-node=1 --mem=0 --mpi=none --export=ALL
    --kill-on-bad-exit=0 --wait=0 --quiet --job-name="$1" "${@:2}")
}

run_on_nodes() { # NAME COMMAND ARGS
  plan_step "$1" "${_small[@]}"
  "${_srun[@]}" "${@:2}"
}

# One task per node, which may use all cores of the job there; it ends after some minutes, whatever happens.
ask_nodes() { # NAME COMMAND ARGS
  plan_step "$1" --cpu-bind=none --input=none --time=2
  "${_srun[@]}" "${@:2}"
}

# LINE of srun -> status 0: it does not matter for ask_nodes.
is_harmless() { [[ $1 == *'lacks support for cpu binding'* ]]; }

# Replace this process: its input goes to all tasks, and their output is printed immediately.
talk_to_nodes() { # NAME COMMAND ARGS
  plan_step "$1" "${_small[@]}" --input=all --unbuffered --error=none
  exec "${_srun[@]}" "${@:2}"
}

list_hosts() { scontrol show hostnames "$_job_hosts" 2>/dev/null; }

# Copy a file from here to the same path on each node of this job.
send_to_nodes() { sbcast --force -- "$1" "$2"; } # FILE PATH

# NODES -> REPLY: command that submits a batch script without them.
explain_exclusion() { REPLY="sbatch --exclude=$1"; }

# Submit a batch script with the nodes that this job left out, and some more.
submit_without() { # SCRIPT NODES
  local facts excluded=
  facts=$(scontrol show job "$_job") && [[ $facts =~ ExcNodeList=([^[:space:]]+) ]] && excluded=${BASH_REMATCH[1]}
  [[ $excluded != '(null)' ]] || excluded=
  sbatch --exclude="${excluded:+$excluded,}$2" -- "$1" >&2
}

# Signal all processes of all steps, instead of continuing.
signal_job() { exec scancel --signal="$1" "$_job"; }
