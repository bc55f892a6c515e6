# Ranks that another launcher than the scheduler's started, such as mpirun or torchrun, or none.

# Variables that each launcher documents: the one that identifies it, its name, then those of rank, local rank, size, local
# size, node number and number of nodes, and one that is the same in all processes of a run and differs between runs.
# Those that a task of the scheduler may start come first; find_launcher also has the variables that identify them.
#   torchrun   PyTorch's page on torchrun, "Environment Variables"
#   Open MPI   docs.open-mpi.org, "Environment variables set for MPI applications"; its *_NODE_RANK is the index
#              among all processes of a node. That page has neither PMIx's id nor the number of nodes (Open MPI 4)
#   MPICH      mpiexec of Hydra, Intel MPI's too ("Environment Variables Not Propagated by Hydra" lists them)
#   Flux       flux-environment(7)
#   PALS       no public page: as HPE's mpiexec sets them at ALCF, where PALS_SIZE is missing
_launchers=(
  'TORCHELASTIC_RUN_ID|torchrun|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE|TORCHELASTIC_RUN_ID'
  'OMPI_COMM_WORLD_SIZE|mpirun|OMPI_COMM_WORLD_RANK|OMPI_COMM_WORLD_LOCAL_RANK|OMPI_COMM_WORLD_SIZE|OMPI_COMM_WORLD_LOCAL_SIZE|-|OMPI_MCA_orte_num_nodes|PMIX_NAMESPACE OMPI_MCA_ess_base_jobid'
  "MPI_LOCALNRANKS|mpiexec|PMI_RANK|MPI_LOCALRANKID|PMI_SIZE|MPI_LOCALNRANKS|-|-|$_run_variables"
  'FLUX_TASK_RANK|flux|FLUX_TASK_RANK|FLUX_TASK_LOCAL_ID|FLUX_JOB_SIZE|-|-|FLUX_JOB_NNODES|FLUX_JOB_ID'
  'PALS_RANKID|PALS|PALS_RANKID|PALS_LOCAL_RANKID|PALS_SIZE PMI_SIZE|PALS_LOCAL_SIZE|PALS_NODEID|-|PALS_APID'
)

find_other_launcher() { # -> _launcher, empty if there is none; _told, _by
  local IFS='|' row mark
  _launcher=
  for row in "${_launchers[@]}"; do
    mark=${row%%|*}
    # shellcheck disable=SC2086 # split into words
    [[ ! ${!mark-} ]] || { read_variables ${row#*|} && find_place; break; }
  done
}

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
  elif has_all_ranks; then # Open MPI, Flux and PALS list no hosts
    # not HOSTNAME, which many sites export from the submission node
    read -r REPLY </proc/sys/kernel/hostname
  fi
  [[ $REPLY =~ ^[A-Za-z0-9][A-Za-z0-9._:-]*$ ]] || REPLY=
  [[ ${TORCHELASTIC_RUN_ID-} ]] || add_host_suffix "$REPLY"
}

offer_port_of_run() {
  local run=${_told[RUN]-}
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

has_all_ranks() { [[ ${_told[WORLD_SIZE]-0} == "${_told[LOCAL_WORLD_SIZE]-}" ]]; } # this node

# In a step, mpirun may start its daemons, on all nodes but the first: use the job's list.
offer_other_meeting_point() {
  if [[ ! $_launcher ]]; then
    offer MASTER_ADDR 127.0.0.1 'this node, which has the only rank'
    free_port
    offer MASTER_PORT "$REPLY" 'free port on this node'
    return
  elif [[ ${MASTER_ADDR-} || $_job_hosts ]]; then
    offer_first_host "$_job_hosts" 'first host of the job'
  elif has_all_ranks; then
    offer MASTER_ADDR 127.0.0.1 'this node, which has all ranks'
  else
    other_first_host
    [[ $REPLY ]] || refuse "$_launcher does not provide the host of rank 0. Set MASTER_ADDR to the same value for all ranks"
    offer MASTER_ADDR "$REPLY" "first host according to $_launcher or the scheduler"
  fi
  offer_port_of_run
}

refuse_signs_of_others() {
  local IFS=$' \t\n' host sign='' variable
  local -A hosts=()
  # jsrun, MVAPICH2's mpirun_rsh, Kubeflow, an indexed Job of Kubernetes: not in the table
  for variable in PMI_SIZE JSM_NAMESPACE_SIZE MV2_COMM_WORLD_SIZE PET_NNODES; do
    [[ ${!variable:-1} == 1 ]] || sign="$variable is ${!variable}"
  done
  for variable in PMIX_RANK JOB_COMPLETION_INDEX; do
    [[ ! ${!variable-} ]] || sign="$variable is ${!variable}"
  done
  if [[ $sign ]]; then
    :
  elif is_number "${NHOSTS-}" && [[ ${PE_HOSTFILE-} ]] && ((10#$NHOSTS > 1)); then
    sign="this Grid Engine job has $NHOSTS hosts"
  elif [[ ${PBS_NODEFILE-} && -r $PBS_NODEFILE ]]; then
    while read -r host; do hosts[${host:-none}]=1; done <"$PBS_NODEFILE"
    ((${#hosts[@]} < 2)) || sign="this PBS job has ${#hosts[@]} hosts"
  elif [[ ${PBS_NODEFILE-} ]]; then
    say "cannot read $PBS_NODEFILE: bind it to make the hosts of the job known. Running as the only rank"
  elif [[ ${LSB_MCPU_HOSTS-} == *' '*' '*' '* ]]; then # each host and its slots
    sign="this LSF job has several hosts"
  fi
  [[ ! $sign ]] || refuse "$sign, but this rank's number is unknown. Start it with mpiexec or torchrun, or set RANK, LOCAL_RANK, \
WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; if it is the only rank, set WORLD_SIZE=1"
}
