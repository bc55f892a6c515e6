# What a rank uses on its node: GPUs, the cores near them, and directories for caches.
# shellcheck disable=SC2206 # lists of names and numbers are split into words

# Choose which GPUs a rank sees, and its LOCAL_RANK, an index into those. all: every GPU that the task has, as under torchrun,
# and LOCAL_RANK is the index of the rank on its node. one: the GPU near its cores, if they are bound to one, else the one with
# that index, and LOCAL_RANK is 0. The index itself is in HPCMOD_LOCAL_RANK, for work that is done once per node. If LOCAL_RANK
# is already set, nothing is hidden.
choose_gpus() { # -> _devices: number of GPUs that the variables show to this rank, 0 if unknown; _gpu: its own, of the node
  local mode=${_asked[gpus-visible]:-$_gpus_per_rank} own='' IFS=,
  local -a devices=() others=()
  _devices=0 _gpu=
  put HPCMOD_LOCAL_RANK "$_place" 'index of this rank on its node'
  is_ours LOCAL_RANK || mode=all
  find_devices
  if [[ $own ]]; then
    put "$own" "${devices[*]}" 'already set'
    ((LOCAL_WORLD_SIZE > ${#devices[@]})) || _gpu=${devices[_place]}
    [[ $mode == all ]] || hide_other_gpus
    _devices=${#devices[@]}
    mirror_gpus
  elif [[ $mode == one ]]; then
    number_gpus
  fi
  [[ ! $own ]] || _gpus_shown="$own=${!own}"
  ((_devices)) && is_ours LOCAL_RANK || return 0
  [[ $_gpu ]] || ((LOCAL_WORLD_SIZE <= _devices)) || warn_of_shared_gpus
  ((_place < _devices && _devices > 1)) || put LOCAL_RANK "$((_place % _devices))" "one of the $_devices GPU(s) this rank sees"
}

# ROCR_VISIBLE_DEVICES hides GPUs from all of ROCm. HIP_VISIBLE_DEVICES, else CUDA_VISIBLE_DEVICES, chooses among the
# rest, from 0 (ROCm documentation, "GPU isolation techniques").
find_devices() { # -> own: the variable that decides, devices: its list, others: variables that must agree with it
  local outer=${_gpu_variables[0]-} variable
  ! shows_devices "$outer" || { own=$outer && devices=(${!outer}); }
  for variable in "${_gpu_variables[@]:1}"; do
    shows_devices "$variable" || continue
    if [[ $own == "$outer" || ! $own ]] && is_choice "$variable"; then
      own=$variable
      devices=(${!variable})
    else
      others+=("$variable")
    fi
  done
}

# Schedulers and users write these values for no GPU.
shows_devices() { [[ $1 && ${!1-} && ${!1} != @(-1|NoDevFiles|none) ]]; } # VARIABLE

# A copy of the outer list comes from Slurm, and a number beyond it would leave HIP without a GPU: neither is a choice.
is_choice() { # VARIABLE
  local device
  [[ $own ]] || return 0
  [[ ${!1} != "${devices[*]}" && ${!1} != "${!devices[*]}" ]] || return 1
  for device in ${!1}; do
    ! is_number "$device" || ((10#$device < ${#devices[@]})) || {
      ((RANK)) || say "$1=${!1} counts from 0 within $own=${devices[*]} and would select no GPU; using ${!devices[*]}"
      return 1
    }
  done
}

hide_other_gpus() {
  local i count=${#devices[@]} number=$_place
  if ((count > 1 && LOCAL_WORLD_SIZE <= count)) && find_near_gpu "$count"; then
    number=$REPLY
    for i in "${!devices[@]}"; do [[ ${devices[i]} != "$REPLY" ]] || number=$i; done
  elif ((LOCAL_WORLD_SIZE > count)); then # share GPUs only if requested
    [[ ${_asked[gpus-visible]-} ]] || return 0
    number=$((_place * count / LOCAL_WORLD_SIZE))
  fi
  ((count > 1 && LOCAL_WORLD_SIZE > 1)) || return 0
  put "$own" "${devices[number]}" "entry $number of ${devices[*]}"
  _gpu=${devices[number]} devices=("${devices[number]}")
}

# A rank that Slurm has bound to all cores near one GPU, and to no cores of another, gets that GPU, whatever its index.
# Otherwise ranks may share cores, and two of them would get the same GPU. -> REPLY
find_near_gpu() { # GPUS
  local IFS=' ,' i open found=()
  find_node_type
  (($1 == _node_gpus)) && read_open_cpus || return 1
  open=$REPLY
  for i in "${!_node_cores[@]}"; do
    ! are_open "${_node_cores[i]}" "$open" || found+=("$i")
  done
  REPLY=${found[*]}
  ((${#found[@]} == 1))
}

# Variables applied after ROCR_VISIBLE_DEVICES count from 0 again.
mirror_gpus() {
  local variable
  [[ $own != ROCR_VISIBLE_DEVICES ]] || devices=("${!devices[@]}")
  for variable in "${others[@]}"; do
    put "$variable" "${devices[*]}" "what $own=${!own} leaves"
  done
}

number_gpus() { source "$_lib/number-gpus.bash"; }

# Slurm may show each rank different GPUs with the same numbers; if a rank sees as many as the job has here, all ranks
# see the same ones.
warn_of_shared_gpus() {
  [[ ${_gpus_here:-$_devices} == "$_devices" && $_launcher ]] && ((RANK == 0)) || return 0
  source "$_lib/shared-gpus.bash"
}

# Bind a rank to the cores near its GPU if it is not bound yet: it may use all cores of the node type, so no launcher bound
# it, and the job has the whole node. From inside the task, this does the same as a launcher's masks.
choose_cpus() { # -> _before
  local near=${HPCMOD_CPUS:-near} each=1 first IFS=' ,'
  [[ $near == near || $near == all ]] || refuse "HPCMOD_CPUS is '$near', expected near or all"
  find_node_type
  ((_devices == 0 || LOCAL_WORLD_SIZE * _devices > ${#_node_cores[@]})) || each=$_devices
  [[ $near == near ]] && ((LOCAL_WORLD_SIZE > 1 && LOCAL_WORLD_SIZE <= ${#_node_cores[@]})) || return 0
  read_open_cpus && are_open "${_node_cores[*]}" "$REPLY" && hash taskset 2>/dev/null || return 0
  first=$((_place * each)) IFS=,
  ((each > 1)) || ! is_number "$_gpu" || ((10#$_gpu >= ${#_node_cores[@]})) || first=$((10#$_gpu))
  _before+=(taskset -c "${_node_cores[*]:first:each}")
}

# The node type of the partition, else the first without partitions; the first if the partition is unknown.
_node_gpus='' # of the node type, and _node_cores by GPU
find_node_type() { # -> these
  local IFS='|' row names chosen=''
  local -a fields
  [[ ! $_node_gpus ]] || return 0
  _node_gpus=0 _node_cores=()
  for row in "${_node_types[@]}"; do
    names=${row%%|*}
    [[ ! $_job_partition || " $names " != *" $_job_partition "* ]] || { chosen=$row && break; }
    [[ $chosen || ($_job_partition && $names) ]] || chosen=$row
  done
  [[ $chosen ]] || return 0
  fields=($chosen) IFS=' '
  _node_gpus=${fields[1]} _node_cores=(${fields[2]-})
}

_open_cpus='' # those that this process may use
read_open_cpus() { # -> REPLY, such as 0-63,128
  if [[ ! $_open_cpus ]]; then
    IFS= read -r -d '' REPLY </proc/self/status
    [[ $REPLY =~ Cpus_allowed_list:[[:blank:]]*([0-9,-]+) ]] || return 1
    _open_cpus=${BASH_REMATCH[1]}
  fi
  REPLY=$_open_cpus
}

are_open() { # CORES OPEN: ranges, split by the caller's IFS
  local range open
  for range in $1; do
    for open in $2; do
      ((${range%-*} < ${open%-*} || ${range#*-} > ${open#*-})) || continue 2
    done
    return 1
  done
}

# Compiler caches: node-local, because ranks on a shared file system compete for locks; per job, because other versions of
# a library would corrupt them.
_caches=(
  MIOPEN_USER_DB_PATH miopen
  MIOPEN_CUSTOM_CACHE_DIR miopen
  TRITON_CACHE_DIR triton
  TORCHINDUCTOR_CACHE_DIR inductor
  TORCH_EXTENSIONS_DIR torch_extensions
  PYTORCH_KERNEL_CACHE_PATH torch_kernels
  CUDA_CACHE_PATH cuda
  AITER_JIT_DIR aiter
)

offer_caches() { # -> _cache
  find_cache
  each_cache offer
}

each_cache() { # COMMAND
  local i
  for ((i = 0; i < ${#_caches[@]}; i += 2)); do
    "$1" "${_caches[i]}" "$_cache/${_caches[i + 1]}" 'node-local, for this job'
  done
}

# Any rank may be the first: none waits for another.
make_caches() {
  [[ " ${_why[*]}" == *node-local* ]] || return 0
  own_cache_directory
  [[ -d $_cache/cuda ]] || mkdir -p -- "$_cache"/{miopen,triton,inductor,torch_extensions,torch_kernels,aiter,cuda}
}

own_cache_directory() {
  make_private "$_cache"
  if ! is_private "$_cache"; then
    move_caches 'is not a private directory of yours'
  elif ! has_space "$_cache"; then
    move_caches 'is full'
  fi
}

# A file of 4 kB fails on a full disk or an exceeded quota.
has_space() { # DIRECTORY
  [[ -s $1/.space ]] || { printf '%4096s' '' >"$1/.space"; } 2>/dev/null
}

move_caches() { source "$_lib/move-caches.bash"; } # WHY

# Models and data sets are large and kept: not in $HOME, whose quota is small at most sites. Other cache variables default
# to these: Hugging Face (HF_HOME), PyTorch (TORCH_HOME), XDG Base Directory Specification.
offer_large_caches() {
  local why='outside $HOME, as the site profile says'
  expand_variables "$_large_caches"
  [[ $REPLY == /* && -d ${REPLY%/*} && -w ${REPLY%/*} ]] || return 0
  offer HF_HOME "$REPLY/huggingface" "$why"
  offer TORCH_HOME "$REPLY/torch" "$why"
  offer XDG_CACHE_HOME "$REPLY" "$why"
}

# Expand only $NAME and ${NAME}; empty if one of them is not set. -> REPLY
expand_variables() { # TEXT
  local rest=$1 text=
  REPLY=
  while [[ $rest =~ ^([^$]*)\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?(.*)$ ]]; do
    [[ ${!BASH_REMATCH[2]-} ]] || return 0
    text+=${BASH_REMATCH[1]}${!BASH_REMATCH[2]} rest=${BASH_REMATCH[3]}
  done
  REPLY=$text$rest
}

# Record the process of each rank, for signal-ranks: $$ stays the same when Python replaces this script. A launcher that
# starts the ranks itself is not a rank.
register_rank() { # PROCESS
  [[ ${RANK-} && $_job && -d $_cache ]] && is_private "$_cache" || return 0
  printf '%s\n' "$1" 1<>"$_cache/.rank-$RANK" # not >, which makes ext4 write an existing file to disk; readers take one line
}
