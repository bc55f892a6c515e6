# Ranks that another launcher than the scheduler's started, such as mpirun or torchrun, or none.

# Compute missing values if all nodes have the same number of ranks, node by node (the default of all launchers) or
# round-robin; otherwise the node's number is not known, and NODE_RANK is left unset.
find_place() {
  local rank=${_told[RANK]-} local_rank=${_told[LOCAL_RANK]-} size=${_told[WORLD_SIZE]-} here=${_told[LOCAL_WORLD_SIZE]-}
  local nodes=${_told[NODES]-} reason='equal shares of all nodes'
  is_number "$rank" && is_number "$local_rank" && is_number "$size" || return 0
  [[ $here != "$size" ]] || nodes=1
  is_number "$nodes" && ((10#$nodes && 10#$size % 10#$nodes == 0)) || return 0
  : "${here:=$((10#$size / 10#$nodes))}"
  [[ ${_told[LOCAL_WORLD_SIZE]-} ]] || _told[LOCAL_WORLD_SIZE]=$here _by[LOCAL_WORLD_SIZE]=$reason
  is_number "$here" && ((10#$here * 10#$nodes == 10#$size)) && [[ ! ${_told[NODE_RANK]-} ]] || return 0
  _by[NODE_RANK]=$reason
  if ((10#$rank % 10#$here == 10#$local_rank)); then
    _told[NODE_RANK]=$((10#$rank / 10#$here))
  elif ((10#$rank / 10#$nodes == 10#$local_rank)); then
    _told[NODE_RANK]=$((10#$rank % 10#$nodes))
  fi
}

# The first host if Slurm provides no list: as torchrun set it for its workers, or the first line of PBS's file of hosts
# (pbs_run(7B)). -> REPLY, empty if unknown
other_first_host() {
  REPLY=
  if [[ ${TORCHELASTIC_RUN_ID-} ]]; then
    REPLY=${MASTER_ADDR-}
  elif [[ ${PBS_NODEFILE-} && -r $PBS_NODEFILE ]]; then
    IFS= read -r REPLY <"$PBS_NODEFILE"
  elif is_all_here; then
    # not HOSTNAME, which many sites export from the submission node
    read -r REPLY </proc/sys/kernel/hostname
  fi
  [[ $REPLY =~ ^[A-Za-z0-9][A-Za-z0-9._:-]*$ ]] || REPLY=
  [[ ${TORCHELASTIC_RUN_ID-} ]] || add_host_suffix "$REPLY"
}

# Open MPI, Flux and PALS do not list the hosts; but if all ranks are on one node, it is this one.
is_all_here() {
  [[ ${FLUX_JOB_NNODES-} == 1 ]] ||
    [[ ${OMPI_COMM_WORLD_SIZE-} && $OMPI_COMM_WORLD_SIZE == "${OMPI_COMM_WORLD_LOCAL_SIZE-}" ]] ||
    [[ ${PALS_LOCAL_SIZE-} && ${PALS_SIZE:-${PMI_SIZE-}} == "$PALS_LOCAL_SIZE" ]] ||
    [[ ${MPI_LOCALNRANKS-} && ${PMI_SIZE-} == "$MPI_LOCALNRANKS" ]]
}

offer_port_of_run() { # RUN
  local run=$1
  number_of "$_launcher ${run:-$UID}" 2>/dev/null
  port "$REPLY"
  [[ ! $run ]] || run="${_by[RUN]} '$run'"
  offer MASTER_PORT "$REPLY" "from ${run:-the user ID, $UID, because the run has no ID}"
}

# A successful connection means that the port is in use; the only rank need not agree with others on the choice.
free_port() { # -> REPLY
  local attempt
  for attempt in {0..49}; do
    port $((($$ + UID + attempt) * 13957))
    { true <>"/dev/tcp/127.0.0.1/$REPLY"; } 2>/dev/null || return 0
  done
}

check_others_are_told() {
  local variable
  ((WORLD_SIZE > 1)) || return 0
  for variable in RANK MASTER_ADDR MASTER_PORT; do
    ! is_ours "$variable" ||
      refuse "WORLD_SIZE is $WORLD_SIZE, but $variable is not set. Start this with $_task_launcher, or set $variable as well"
  done
}

# Without a known launcher, this is the only rank, unless something suggests that there are more.
offer_only_rank() {
  local fact reason='the only rank, not started by a launcher'
  [[ ${WORLD_SIZE-} ]] || refuse_signs_of_others
  [[ ${WORLD_SIZE:-1} == 1 ]] || reason='one of your ranks, not started by a launcher'
  for fact in RANK LOCAL_RANK NODE_RANK; do
    [[ $fact == NODE_RANK && ! ${NODE_RANK-} && ${WORLD_SIZE:-1} != 1 ]] || offer "$fact" 0 "$reason"
  done
  offer WORLD_SIZE 1 "$reason"
  offer LOCAL_WORLD_SIZE 1 "$reason"
}

offer_own_meeting_point() {
  offer MASTER_ADDR 127.0.0.1 'this node, which has the only rank'
  free_port
  offer MASTER_PORT "$REPLY" 'free port on this node'
}

refuse_signs_of_others() {
  find_signs_of_others
  [[ ! $REPLY ]] || refuse "$REPLY, but this rank's number is unknown. Start it with mpiexec or torchrun, or set RANK, \
LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; if it is the only rank, set WORLD_SIZE=1"
}

# -> REPLY: evidence of other ranks, or empty
find_signs_of_others() {
  local IFS=$' \t\n' host variable
  local -A hosts=()
  REPLY=
  # jsrun, MVAPICH2's mpirun_rsh, Kubeflow, an indexed Job of Kubernetes: not in the table of launchers
  for variable in PMI_SIZE JSM_NAMESPACE_SIZE MV2_COMM_WORLD_SIZE PET_NNODES; do
    [[ ${!variable:-1} == 1 ]] || REPLY="$variable is ${!variable}"
  done
  for variable in PMIX_RANK JOB_COMPLETION_INDEX; do
    [[ ! ${!variable-} ]] || REPLY="$variable is ${!variable}"
  done
  if [[ $REPLY ]]; then
    return
  elif is_number "${NHOSTS-}" && [[ ${PE_HOSTFILE-} ]] && ((10#$NHOSTS > 1)); then
    REPLY="this Grid Engine job has $NHOSTS hosts"
  elif [[ ${PBS_NODEFILE-} && -r $PBS_NODEFILE ]]; then
    while read -r host; do hosts[${host:-none}]=1; done <"$PBS_NODEFILE"
    ((${#hosts[@]} < 2)) || REPLY="this PBS job has ${#hosts[@]} hosts"
  elif [[ ${PBS_NODEFILE-} ]]; then
    say "cannot read $PBS_NODEFILE: bind it to make the hosts of the job known. Running as the only rank"
  elif [[ ${LSB_MCPU_HOSTS-} == *' '*' '*' '* ]]; then # each host and its slots
    REPLY="this LSF job has several hosts"
  fi
}
