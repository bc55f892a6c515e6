# Launchers that start the ranks of a node from one task per node. Each is a module of the image's Python, started with the
# flags that its documentation gives for several nodes: "torchrun", "accelerate launch".
choose_launch() { # -> _launch
  local name=${_asked[launcher]} each nodes=$WORLD_SIZE i
  for ((i = 0; i < ${#_refused[@]}; i += 2)); do
    [[ ${_refused[i]} != "$name" ]] || refuse "$name must not be used on this machine: ${_refused[i + 1]}"
  done
  ((LOCAL_WORLD_SIZE == 1)) ||
    refuse "$name starts the ranks of a node itself, but there are $LOCAL_WORLD_SIZE tasks per node. Use $_task_launcher --ntasks-per-node=1"
  [[ ${NODE_RANK-} ]] || refuse "${_launcher:-your environment} does not provide the node's number. Set NODE_RANK"
  if [[ $name == ray ]]; then
    source "$_lib/ray.bash"
    launch_by_ray "$nodes"
    return
  fi
  count_ranks_of_node
  each=$REPLY
  case $name in
    torchrun) launch_by_torchrun "$nodes" "$each" ;;
    accelerate)
      # Without GPUs `accelerate launch` starts one process per node (accelerate 1.15, simple_launcher); torchrun starts
      # Accelerate's programs as well.
      if ! has_gpus && ((nodes * each > 1)); then
        offer ACCELERATE_USE_CPU true 'no GPUs here'
        launch_by_torchrun "$nodes" "$each"
      else
        _launch=(-m accelerate.commands.launch --num_machines "$nodes" --machine_rank "$NODE_RANK"
          --num_processes "$((nodes * each))" --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT")
        has_gpus || _launch+=(--cpu)
        ! has_gpus || ((nodes * each == 1)) || _launch+=(--multi_gpu)
      fi
      ;;
  esac
  share_cores "$each"
  # Signals to all processes of a step are meant for the ranks, and would end the program that started them.
  trap '' USR1 USR2
  unset_all RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE HPCMOD_LOCAL_RANK HPCMOD_LAUNCHER HPCMOD_RANKS_PER_NODE \
    HPCMOD_RDZV HPCMOD_MAX_RESTARTS HPCMOD_TEE HPCMOD_SAVE_CACHES HPCMOD_RESTORE_CACHES
}

launch_by_torchrun() { # NODES RANKS -> _launch
  _launch=(-m torch.distributed.run --nnodes "$1" --nproc_per_node "$2")
  add_rendezvous
  [[ ! ${_asked[max-restarts]} ]] || _launch+=(--max_restarts "${_asked[max-restarts]}")
  [[ ! ${_asked[tee]} ]] || _launch+=(--tee "${_asked[tee]}")
  # Each rank also starts with this script, which binds it to the cores near its GPU.
  _launch+=(--no-python "$_script")
}

# static: the first node is that of MASTER_ADDR. c10d: nodes join in any order, also again after a restart.
add_rendezvous() {
  if [[ ${_asked[rdzv]:-static} == c10d ]]; then
    _launch+=(--rdzv_backend c10d --rdzv_endpoint "$MASTER_ADDR:$MASTER_PORT" --rdzv_id "${_told[RUN]:-hpcmod}")
    # With a suffix, no node recognizes MASTER_ADDR as its own name, and none would start the store: PyTorch issue 73656.
    [[ ! $_host_suffix ]] || _launch+=(--rdzv_conf "is_host=$((NODE_RANK == 0))")
  else
    _launch+=(--node_rank "$NODE_RANK" --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT")
  fi
}

# OpenMP threads per rank: by default, torchrun sets one.
share_cores() { # RANKS
  local cores=0 near="${_node_cores[*]}"
  if read_open_cpus && are_open "$near" "$REPLY"; then
    count_cores "$near"
    cores=$REPLY
  fi
  ((cores)) || ! is_number "$_task_cpus" || cores=$((10#$_task_cpus))
  ((cores < $1)) || offer OMP_NUM_THREADS "$((cores / $1))" 'cores of the node, divided by ranks'
}

count_cores() { # RANGES -> REPLY
  local IFS=' ,' range
  REPLY=0
  for range in $1; do
    REPLY=$((REPLY + ${range#*-} - ${range%-*} + 1))
  done
}

count_ranks_of_node() { # -> REPLY
  find_node_type
  REPLY=${_asked[ranks-per-node]}
  [[ $REPLY ]] || REPLY=$_devices
  ((REPLY)) || REPLY=${_gpus_here:-$_node_gpus}
  { is_number "$REPLY" && ((REPLY)); } || refuse 'no GPUs found to start one rank each. Set the number of ranks: --ranks-per-node N'
}

# If a step shares its node's GPUs, no variable lists them.
has_gpus() {
  ((_devices + _node_gpus)) || [[ $_gpus_here == [1-9]* ]]
}

# Ranks get their own values; the launcher in between must not see ours.
unset_all() { # VARIABLES
  local name
  for name; do
    unset "$name" "_why[$name]"
  done
}
