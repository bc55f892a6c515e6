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
  [[ ! ${!PMI@} ]] || offer_mpi_apart
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
  ((${LOCAL_WORLD_SIZE:-1} > 1)) && read -ra map </proc/self/uid_map && [[ ${map[*]} != '0 0 4294967295' ]] || return 0
  offer MPIR_CVAR_CH4_CMA_ENABLE 0 "$why"
  offer UCX_POSIX_USE_PROC_LINK n "$why"
}

put() { # VARIABLE VALUE WHY; explain.bash has one that also notes the line
  _why[$1]=$3
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

# For tasks of a step; launchers.bash has the others.
offer_meeting_point() {
  local run=${_told[RUN]-}
  [[ $_launcher == "$_task_launcher" ]] || { offer_other_meeting_point; return; }
  offer_first_host "$_step_hosts" 'first host of the step'
  is_number "$run" || refuse "$_job_variable is '$run', which is not a number"
  port $((10#$run * 13957 + 10#$_step))
  offer MASTER_PORT "$REPLY" "from job $run and step $_step"
}

offer_first_host() { # LIST WHY
  local why=$2
  REPLY=
  if [[ ! ${MASTER_ADDR-} ]]; then
    first_host "$1" 2>/dev/null || refuse "no host list in $_host_variables: '$1'"
    [[ ! $_host_suffix ]] || { add_host_suffix "$REPLY" && why+=" with the suffix of the fast network, $_host_suffix"; }
  fi
  offer MASTER_ADDR "$REPLY" "$why"
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
  [[ ! $_launcher && $_job_tasks != 1 && ${WORLD_SIZE-} == 1 ]] || return 0
  say "this job has $_job_tasks tasks, but this process was not started by $_task_launcher: running as the only rank"
}

# If the launcher gives MPI no PMI, each process silently becomes rank 0 of 1.
warn_of_missing_mpi() { # ARGS
  [[ ${RANK-} == 0 && $_launcher == "$_task_launcher" && ${WORLD_SIZE-} != 1 && ! ${!PMI@}${!PALS@} && -f ${1-} ]] || return 0
  source "$_lib/missing-mpi.bash"
}

_parts=(RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK NODES RUN)
declare -A _told=() # values from the launcher, by these names
declare -A _by=()   # the variable that each came from

# launchers.bash has the other launchers. An inner one comes first: a task may have started an mpirun that starts the ranks.
find_launcher() { # -> _launcher, empty if none started this process; _told, _by
  local IFS='|'
  find_step
  if [[ $_step && ! ${TORCHELASTIC_RUN_ID-}${OMPI_COMM_WORLD_SIZE-}${MPI_LOCALNRANKS-}${FLUX_TASK_RANK-} ]]; then
    # shellcheck disable=SC2086 # split into words
    read_variables "$_task_launcher" $_task_variables
    find_place_in_step
  else
    source "$_lib/launchers.bash"
    find_other_launcher
  fi
}

# Of several variables, the first that is set counts; - means none.
read_variables() { # NAME VARIABLES...: in the order of _parts
  local IFS=' ' part variable
  _launcher=$1
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
