# The ranks of a distributed job: which launcher started this one, its numbers, and where all ranks meet.

# Whether a variable stands for an option, or changes what one does; others, such as HPCMOD_CACHE_ROOT, need no options.bash.
has_option_variable() {
  [[ ${!HPCMOD_*} == \
    *HPCMOD_@(DEBUG|FORK|GPUS|LAUNCHER|MAX|NO_PYTHON|PRELOAD|PROFILE|RANKS|RAY|RDZV|RESTORE|SAVE|SPAWN|TEE|TIMING)* ]]
}

declare -A _why=() # variable -> origin of its value

# An existing value wins, also that of an earlier offer; an empty one counts as unset.
offer() { # VARIABLE VALUE WHY
  if [[ ! ${!1-} ]]; then
    put "$1" "$2" "${3-$_me}"
  elif [[ ! ${_why[$1]-} ]]; then
    put "$1" "${!1}" 'already set'
  fi
}

# The settings of settings.bash. An empty value of yours counts as set, as for the module.
offer_settings() {
  offer_list _settings
  if ((_multi_node)); then offer_list _settings_multi_node; else offer_list _settings_single_node; fi
  offer_mpi_apart
}

offer_list() { # LIST: the name of an array of variables and values
  local -n _list=$1
  local i name
  for ((i = 0; i < ${#_list[@]}; i += 2)); do
    name=${_list[i]}
    if [[ ${!name+set} && ${!name-} != "${_list[i + 1]}" ]]; then
      [[ ${_why[$name]-} ]] || put "$name" "${!name}" 'already set'
    else
      put "$name" "${_list[i + 1]}" "$1"
    fi
  done
}

# Without setuid, each rank has a user namespace of its own, and processes of one cannot read memory or open files of another:
# MPICH fails with large messages, and its UCX always. Open MPI notices it.
offer_mpi_apart() {
  local map why='each rank has its own user namespace'
  ((${LOCAL_WORLD_SIZE:-1} > 1)) && [[ ${!PMI@} ]] && read -ra map </proc/self/uid_map && [[ ${map[*]} != '0 0 4294967295' ]] || return 0
  offer MPIR_CVAR_CH4_CMA_ENABLE 0 "$why"
  offer UCX_POSIX_USE_PROC_LINK n "$why"
}

put() { # VARIABLE VALUE WHY
  _why[$1]=$3
  [[ $_only != explain ]] || note_origin "$1"
  declare -gx "$1=$2"
}

is_ours() { [[ ${_why[$1]} != 'already set' ]]; }

refuse() { source "$_lib/refuse.bash"; } # MESSAGE

offer_ranks() {
  local fact
  [[ $_launcher ]] || { offer_only_rank; return; }
  for fact in RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE; do
    offer "$fact" "${_told[$fact]-}" "${_by[$fact]}"
  done
  [[ ! ${NODE_RANK-}${_told[NODE_RANK]-} && $_launcher != "$_task_launcher" ]] ||
    offer NODE_RANK "${_told[NODE_RANK]-}" "${_by[NODE_RANK]}"
}

offer_meeting_point() {
  [[ $_launcher ]] || { offer_own_meeting_point; return; }
  offer_master_address
  offer_master_port
}

# In a step, mpirun may start its daemons, on all nodes but the first: use its list only for tasks.
offer_master_address() {
  local list=$_job_hosts why='first host of the job'
  [[ $_launcher != "$_task_launcher" ]] || list=$_step_hosts why='first host of the step'
  REPLY=
  if [[ ! ${MASTER_ADDR-} && ($_launcher == "$_task_launcher" || $list) ]]; then
    first_host "$list" 2>/dev/null ||
      refuse "no host list in $_host_variables: '$list'"
    add_host_suffix "$REPLY"
    [[ ! $_host_suffix ]] || why+=" with the suffix of the fast network, $_host_suffix"
  elif [[ ! ${MASTER_ADDR-} && ${_told[WORLD_SIZE]-} == "${_told[LOCAL_WORLD_SIZE]-}" ]]; then
    REPLY=127.0.0.1 why='this node, which has all ranks'
  elif [[ ! ${MASTER_ADDR-} ]]; then
    why="first host according to $_launcher or the scheduler"
    other_first_host
    [[ $REPLY ]] || refuse "$_launcher does not provide the host of rank 0. Set MASTER_ADDR to the same value for all ranks"
  fi
  offer MASTER_ADDR "$REPLY" "$why"
}

offer_master_port() {
  local run=${_told[RUN]-}
  [[ $_launcher == "$_task_launcher" ]] || { offer_port_of_run "$run"; return; }
  is_number "$run" || refuse "$_job_variable is '$run', which is not a number"
  port $((10#$run * 13957 + 10#$_step))
  offer MASTER_PORT "$REPLY" "from job $run and step $_step"
}

# Ports 10240 to 32750: Linux gives clients those from 32768, so no short-lived connection has one.
# 22511 is prime, and 13957 is 0.62 of it, the golden ratio: jobs with IDs less than 50 apart are 445 or more ports apart.
port() { # NUMBER -> REPLY
  REPLY=$((10240 + $1 % 22511))
}

# -> _place: index of this rank on its node; _multi_node
check_ranks() {
  local variable value
  for variable in WORLD_SIZE RANK LOCAL_WORLD_SIZE LOCAL_RANK NODE_RANK MASTER_PORT; do
    [[ ${_why[$variable]-} ]] || continue
    value=${!variable}
    is_number "$value" || refuse_value "$variable"
    declare -gx "$variable=$((10#$value))"
  done
  ((MASTER_PORT > 0 && MASTER_PORT < 65536)) || refuse "MASTER_PORT is $MASTER_PORT, which is not a port"
  check_sources
  check_below RANK WORLD_SIZE
  check_below LOCAL_RANK LOCAL_WORLD_SIZE
  _place=$LOCAL_RANK
  is_ours LOCAL_RANK || ! is_number "${_told[LOCAL_RANK]-}" || _place=$((10#${_told[LOCAL_RANK]}))
  _multi_node=$((WORLD_SIZE > LOCAL_WORLD_SIZE))
}

refuse_value() { # VARIABLE
  local by=${_by[$1]--}
  [[ ! ${!1} ]] || refuse "$1 is '${!1}' (${_why[$1]}), which is not a number"
  [[ $by != - ]] && by=" ($by)" || by=
  refuse "$1 is not known: $_launcher does not provide it$by. Set $1"
}

check_below() { # RANK SIZE
  local rank=${!1} size=${!2}
  ((rank < size)) || refuse "$1 is $rank (${_why[$1]}), but $2 is $size (${_why[$2]})"
}

# Values from the user and from the launcher must agree: RANK from a batch script, for example, makes every rank rank 0,
# and all would wait for the others.
check_sources() {
  local rank=${_told[RANK]-} size=${_told[WORLD_SIZE]-}
  if [[ ! $_launcher ]]; then
    check_others_are_told
  elif is_ours WORLD_SIZE && ! is_ours RANK; then
    [[ $RANK == "$rank" ]] || refuse "RANK is $RANK in task $rank. Unset RANK, or set WORLD_SIZE as well"
  elif is_ours RANK && ! is_ours WORLD_SIZE; then
    [[ $WORLD_SIZE == "$size" ]] ||
      refuse "WORLD_SIZE is $WORLD_SIZE, but the step has $size tasks. Unset WORLD_SIZE, or set RANK as well"
  fi
}

warn_of_missing_launcher() {
  [[ ! $_launcher && $_job_tasks != 1 && $WORLD_SIZE == 1 ]] || return 0
  say "this job has $_job_tasks tasks, but this process was not started by $_task_launcher: running as the only rank"
}

# If the launcher gives MPI no PMI, each process silently becomes rank 0 of 1.
warn_of_missing_mpi() { # ARGS
  local text
  [[ $_launcher == "$_task_launcher" && ${RANK-} == 0 && $WORLD_SIZE != 1 && ! ${!PMI@}${!PALS@} && -f ${1-} ]] || return 0
  IFS= read -r -N 65536 text <"$1"
  [[ $'\n'$text =~ $'\n'[[:blank:]]*(import|from)[[:blank:]]+(mpi4py|dask_mpi|petsc4py) ]] || return 0
  say "$1 uses MPI, which gets no PMI from $_launcher, so that each rank is rank 0 of 1: add --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI)"
}

# Variables that each launcher documents: a line has the launcher's name, the variable that identifies it, then those of
# rank, local rank, size, local size, node number and number of nodes, and one that is the same in all processes of a run
# and differs between runs. Of several variables, the first that is set counts; - means none.
# The innermost launcher comes first: a task of the scheduler may have started an mpirun that starts the ranks.
#   torchrun   PyTorch's page on torchrun, "Environment Variables"
#   Open MPI   docs.open-mpi.org, "Environment variables set for MPI applications"; its *_NODE_RANK is the index
#              among all processes of a node. That page has neither PMIx's id nor the number of nodes (Open MPI 4)
#   MPICH      mpiexec of Hydra, Intel MPI's too ("Environment Variables Not Propagated by Hydra" lists them)
#   Flux       flux-environment(7)
#   PALS       no public page: as HPE's mpiexec sets them at ALCF, where PALS_SIZE is missing
_launchers=(
  'torchrun|TORCHELASTIC_RUN_ID|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE|TORCHELASTIC_RUN_ID'
  'mpirun|OMPI_COMM_WORLD_SIZE|OMPI_COMM_WORLD_RANK|OMPI_COMM_WORLD_LOCAL_RANK|OMPI_COMM_WORLD_SIZE|OMPI_COMM_WORLD_LOCAL_SIZE|-|OMPI_MCA_orte_num_nodes|PMIX_NAMESPACE OMPI_MCA_ess_base_jobid'
  "mpiexec|MPI_LOCALNRANKS|PMI_RANK|MPI_LOCALRANKID|PMI_SIZE|MPI_LOCALNRANKS|-|-|$_run_variables"
  'flux|FLUX_TASK_RANK|FLUX_TASK_RANK|FLUX_TASK_LOCAL_ID|FLUX_JOB_SIZE|-|-|FLUX_JOB_NNODES|FLUX_JOB_ID'
  "$_task_launcher|_step|$_task_variables"
  'PALS|PALS_RANKID|PALS_RANKID|PALS_LOCAL_RANKID|PALS_SIZE PMI_SIZE|PALS_LOCAL_SIZE|PALS_NODEID|-|PALS_APID'
)

_parts=(RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK NODES RUN)
declare -A _told=() # values from the launcher, by these names
declare -A _by=()   # the variable that each came from

find_launcher() { # -> _launcher, empty if none started this process; _told, _by
  local IFS='|' row mark
  find_step
  _launcher=
  for row in "${_launchers[@]}"; do
    mark=${row#*|} mark=${mark%%|*}
    # shellcheck disable=SC2086 # splitting is intended, and the table has no glob characters
    [[ ! ${!mark-} ]] || { read_variables $row && break; }
  done
  if [[ $_launcher == "$_task_launcher" ]]; then
    find_place_in_step
  else
    source "$_lib/launchers.bash" # another launcher, or none
    [[ ! $_launcher ]] || find_place
  fi
}

read_variables() { # NAME MARK VARIABLES...
  local IFS=' ' part variable
  _launcher=$1
  shift
  for part in "${_parts[@]}"; do
    shift
    for variable in $1; do
      [[ $variable == - || ! ${!variable-} ]] || break
    done
    _by[$part]=$variable
    [[ $variable == - ]] || _told[$part]=${!variable-}
  done
}

# A batch script has a rank, 0, and the job's number of tasks, too, but no step, or one with a reserved high number.
find_step() { # -> _step, empty outside a step
  _step=$_step_number
  is_number "$_step" && ((10#$_step < _step_limit)) || _step=
}

find_place_in_step() {
  tasks_here "$_step_tasks" "$_node_number"
  [[ $REPLY || ${_told[NODES]-} != 1 ]] || REPLY=${_told[WORLD_SIZE]-}
  _told[LOCAL_WORLD_SIZE]=$REPLY
  _by[LOCAL_WORLD_SIZE]='tasks of the step on this node' _by[WORLD_SIZE]='tasks of the step'
}

# 2(x3),1 means two tasks on each of nodes 0, 1, 2 and one on node 3. -> REPLY, empty if not in the list.
tasks_here() { # LIST NODE
  local IFS=, entry times node=$2
  REPLY=
  is_number "$node" && [[ $1 =~ ^[0-9]+(\(x[0-9]+\))?(,[0-9]+(\(x[0-9]+\))?)*$ ]] || return 0
  for entry in $1; do
    times=1
    [[ $entry != *x* ]] || times=${entry#*x}
    ((10#$node >= 10#${times%')'})) || break
    node=$((10#$node - 10#${times%')'}))
    entry=
  done
  REPLY=${entry%'('*}
}
