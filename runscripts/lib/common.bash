# What all scripts share: messages, and what the scheduler says; then host lists, this job's directory, the image's Python.

# Global names start with _, so that no variable that the user exported is changed before Python starts.
say() { printf '%s: %s\n' "$_me" "${1//[$'\a\b\e\r']/?}" >&2; }

stop() { # STATUS MESSAGE
  say "$2"
  exit "$1"
}

# The scheduler's variables, under names of our own. Only this file reads Slurm's, and only step.bash runs its programs.
#   Slurm  sbatch(1) and srun(1), "OUTPUT ENVIRONMENT VARIABLES"
#   PBS    qsub(1B), "Environment Variables"
#   LSF    IBM Spectrum LSF, "Environment variables"
#   Flux   flux-environment(7)
_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${FLUX_JOB_ID-}}}}
_step_nodes=${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-${FLUX_JOB_NNODES-}}}
_node_name=${SLURMD_NODENAME-}
_node_index=${SLURM_LOCALID:-${PALS_LOCAL_RANKID:-${OMPI_COMM_WORLD_LOCAL_RANK:-0}}} # of this task on its node

in_container() { [[ ${APPTAINER_CONTAINER-} || ${SINGULARITY_CONTAINER-} || -d /.singularity.d ]]; }

# --- From here on: for the run scripts. bin/ and in-environment do not read it.
[[ ! ${_starts_container-} ]] || return 0

_job_restarts=${SLURM_RESTART_COUNT:-0}
_job_partition=${SLURM_JOB_PARTITION-}
_job_nodes=${SLURM_JOB_NUM_NODES:-${SLURM_NNODES-}}
_job_tasks=${SLURM_NTASKS:-1}
_job_hosts=${SLURM_JOB_NODELIST:-${SLURM_NODELIST-}}
_step_hosts=${SLURM_STEP_NODELIST:-$_job_hosts}
_step_tasks=${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE-}} # of each node: 2(x3),1
_step_number=${SLURM_STEP_ID:-${SLURM_STEPID-}}
_step_limit=4294967280 # from this number on, a step is a batch script or another one without ranks (slurm.h)
_node_number=${SLURM_NODEID-} # among those of the step
_gpus_here=${SLURM_GPUS_ON_NODE-} # of the job on this node
_task_cpus=${SLURM_CPUS_PER_TASK-}

# The environment of each process of this job has the first, that of a task also a variable that begins with the second,
# and on this node the third.
_job_variable=SLURM_JOB_ID
_job_mark=$_job_variable=$_job _task_mark=SLURM_STEP_ID= _node_mark=SLURMD_NODENAME=$_node_name

# The command that starts tasks; also the value of --launcher for ranks that are tasks. Then its row, as in launchers.bash.
_task_launcher=srun
_task_variables='SLURM_PROCID|SLURM_LOCALID|SLURM_STEP_NUM_TASKS SLURM_NTASKS SLURM_NPROCS|-|SLURM_NODEID|SLURM_STEP_NUM_NODES SLURM_NNODES|SLURM_JOB_ID SLURM_JOBID'
_run_variables='SLURM_JOB_ID PBS_JOBID LSB_JOBID' # for launchers without a number of their own
_host_variables='SLURM_STEP_NODELIST, SLURM_JOB_NODELIST or SLURM_NODELIST'

# Search for errors: matching the grammar takes thirty times as long. Outside brackets: what no host name contains, or
# begins with, unpaired ones. Inside: anything but numbers and ranges.
_no_host_list='[^],A-Za-z0-9._[-]|,[._-]|\[[],-]|[,-]\]|\][^[]*\]'
_no_opening='^([._-]|[^[]*\])'
_no_closing='\[[^]]*(\[|$)'
_no_ranges='[^0-9,-]|,,|-,|,-|-[0-9]*-'

# LIST -> REPLY: its first host, as written there. Status 1: not a host list.
first_host() {
  local LC_ALL=C IFS='[]' list=$1 text i
  local -a parts
  list=${list#"${list%%[![:blank:],]*}"}
  [[ ${list: -1} != [[:blank:]] ]] || list=${list%"${list##*[![:blank:]]}"}
  [[ -n $list && ! $list =~ $_no_host_list && ! $list =~ $_no_opening && ! $list =~ $_no_closing ]] || return 1
  # shellcheck disable=SC2206 # split on purpose; without brackets, it has no glob characters
  parts=($list)
  ranges_rise || return 1
  REPLY=
  for ((i = 0; i < ${#parts[@]}; i += 2)); do
    text=${parts[i]}
    REPLY+=${text%%,*}
    [[ $text != *,* ]] || break
    text=${parts[i + 1]-}
    REPLY+=${text%%[,-]*}
  done
}

# parts[1], parts[3], ... are ascending ranges, none longer than Slurm accepts. Only the first 250 are checked: longer lists
# come from Slurm, not from people.
ranges_rise() {
  local IFS=- i j low high left=250
  local -a ends
  for ((i = 1; i < ${#parts[@]}; i += 2)); do
    [[ ${parts[i]} == *[!0-9]* ]] || continue
    [[ ! ${parts[i]} =~ $_no_ranges ]] || return 1
    [[ ${parts[i]} == *-* ]] || continue
    # shellcheck disable=SC2206
    ends=(${parts[i]})
    for ((j = 1; j < ${#ends[@]} && left > 0; j++, left--)); do
      low=10#${ends[j - 1]##*,} high=10#${ends[j]%%,*}
      ((low <= high && high - low < 65536)) || return 1
    done
  done
}

# The host names of the fast network differ from those of the scheduler by a suffix of the first part:
# n1.site is n1i.site. HOST -> REPLY: its name there.
add_host_suffix() {
  REPLY=$1
  [[ $_host_suffix && $1 && $1 != *:* && $1 != localhost && ! $1 =~ ^[0-9.]+$ ]] || return 0
  REPLY=${1%%.*}$_host_suffix
  [[ $1 != *.* || $_host_suffix == *.* ]] || REPLY+=.${1#*.}
}

# The cache directory of this user, job and node, the same inside and outside the container. -> _cache
find_cache() {
  local user=${USER-} job=${_job:-nojob} node=$_node_name
  is_plain "$user" || user=$UID
  is_plain "$job" || { number_of "$job" 2>/dev/null && job=$REPLY; }
  is_plain "$node" || node=${NODE_RANK-}
  [[ $node ]] || read -r node </proc/sys/kernel/hostname
  _cache=${HPCMOD_CACHE_ROOT:-$_cache_root}
  [[ $_cache == /* ]] || _cache=$PWD/$_cache
  _cache+=/$user-hpcmod-$job-$node
}

is_plain() { [[ $1 && $1 != *[!A-Za-z0-9._-]* ]]; }

is_number() { [[ $1 && $1 != *[!0123456789]* && ${#1} -le 10 ]]; }

# A number computed from a string, the same on every node. -> REPLY
number_of() { # TEXT
  local LC_ALL=C i code
  REPLY=0
  for ((i = 0; i < ${#1}; i++)); do
    printf -v code %d "'${1:i:1}"
    REPLY=$(((REPLY * 257 + code + 256) % 1000003))
  done
}

# Another user may have created the directory first, put a link there, or, if the parent belongs to a group, renamed one of
# ours that the group may write to.
is_private() { # DIRECTORY
  local mode
  [[ $1 != "$_private" ]] || return 0
  [[ -d $1 && ! -L $1 && -O $1 && -w $1 ]] || return 1
  if [[ ! -u $1 || ! -k ${1%/*} ]]; then
    mode=$(ls -ldn -- "$1") && [[ ${mode:5:1}${mode:8:1} == -- ]] || return 1
  fi
  _private=$1
}
_private='' # the last directory that is

# Nobody can rename another's directory in a sticky one, such as /tmp. There, the set-user-ID bit, which only its owner can
# set, marks those that this function created: is_private needs no `ls`.
make_private() { # DIRECTORY
  local mode=700
  [[ ! -k ${1%/*} ]] || mode=4700
  # shellcheck disable=SC2174 # only the last directory must be private
  [[ -d $1 ]] || mkdir -p -m "$mode" -- "$1" 2>/dev/null
}

# Unset the variables of the host's Python that the module or the wrapper sets to empty.
forget_host_python() {
  set -- "${_guard[@]}" # name, value, when
  while (($#)); do
    [[ $2 || ${!1-not set} ]] || unset "$1"
    shift 3
  done
}

activate_python() {
  forget_host_python
  [[ ${WITH_CONDA-} ]] && ! python_is_active || return 0
  local before=$PATH libraries=${LD_LIBRARY_PATH-}
  forget_other_conda
  # Conda's scripts read unset variables, and some print to stdout, which is the program's.
  set +u
  eval "$WITH_CONDA" >&2 || stop 7 "cannot activate the image's Python environment with WITH_CONDA='$WITH_CONDA'"
  set -u
  # Activation puts its own directories first, but the user's packages must precede the image's.
  stay_first /runscripts/bin "$before"
  [[ ! ${VIRTUAL_ENV-} ]] || stay_first "$VIRTUAL_ENV/bin" "$before"
  stay_first /runscripts "$before"
  # The host's network libraries, if the module has put them first.
  [[ $libraries != /host/lib:* || $LD_LIBRARY_PATH == /host/lib:* ]] || LD_LIBRARY_PATH=/host/lib:$LD_LIBRARY_PATH
}

# The conda environment of WITH_CONDA's last word is on PATH, and only the user's python comes before it.
python_is_active() {
  local prefix=${CONDA_PREFIX-}
  [[ ${prefix##*/} == "${WITH_CONDA##* }" && -x $prefix/bin/python && :$PATH: == *":$prefix/bin:"* ]] || return 1
  hash python
  [[ ${BASH_CMDS[python]} == "$prefix/bin/python" || ${BASH_CMDS[python]} == "${VIRTUAL_ENV:-none}/bin/python" ]]
}

# Variables of a conda of the host, not on PATH here: conda would first deactivate it.
forget_other_conda() {
  [[ :$PATH: == *":${CONDA_PREFIX:-none}/bin:"* ]] ||
    unset CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_SHLVL CONDA_PROMPT_MODIFIER
}

stay_first() { # DIRECTORY PATH
  [[ :$2: != *":$1:"* ]] || PATH=$1:$PATH
}

_before=() # command in front of python, e.g. a profiler
_last=()   # command of this script that is run last, with the arguments for python

run_python() { # ARGS
  activate_python
  hash -r
  [[ ! ${_last[*]} ]] || "${_last[@]}" "$@"
  ! hash python 2>/dev/null || exec "${_before[@]}" python "$@"
  ! hash python3 2>/dev/null || exec "${_before[@]}" python3 "$@"
  stop 127 "Python not found: neither python nor python3 on PATH=$PATH, with WITH_CONDA='${WITH_CONDA-}'"
}
