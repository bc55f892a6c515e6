# Options of conda-python-distributed, and what they add. Read if there is one, or a variable HPCMOD_*.

_extras=1
_launch=() _ray_head='' _ray_python=() _times='' _trace='' _debug_dir='' _stderr=''

_usage='usage: conda-python-distributed [OPTIONS] ARGS
Run "python ARGS" as one rank of a distributed job: one rank per task of srun, mpirun, mpiexec (MPICH, PALS) or flux run;
otherwise the only rank. Options come before ARGS; -- ends them.

Sets these unless already set: MASTER_ADDR MASTER_PORT RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK, the cache
directories, and the settings of the machine.
  --gpus-visible WHICH  all: a rank sees all GPUs of its node, and LOCAL_RANK is its index among the ranks there;
                        one: it sees the GPU with that index, and LOCAL_RANK is 0 (default: from the site profile)
  --hpcmod-explain      print each variable with its value and origin, and the command; run nothing
  --help                print this help; for the help of Python itself: conda-python-simple --help
  --launcher NAME       torchrun or accelerate starts the ranks from one task per node; srun: one rank per task;
                        ray: start a Ray cluster from one task per node, and run ARGS once, on the first node
  --no-python           ray: ARGS are a command and its arguments, such as vllm serve
  --ranks-per-node N    ranks per node (default: one per GPU)
  --rdzv c10d           torchrun: nodes join in any order, also again after a restart (default: static)
  --max-restarts N      torchrun: restart failed ranks up to N times (default: 0)
  --tee N               torchrun: also print the output of ranks: 1 stdout, 2 stderr, 3 both
  --profile-rank N,...  run these ranks under a profiler
  --profiler COMMAND    torch, rocprofv3, rocprof, nsys, py-spy or perf, or any command to put in front of python
  --profile-steps N     torch: record N optimizer steps after the first; 0: the whole run (default: 3)
  --debug WHAT,...      rccl, nccl, hip, miopen, torch, mpi: logs, one file per rank, in hpcmod-debug-JOB or HPCMOD_DEBUG_DIR
  --spawn               import once per node, then fork the ranks; where a fork is not safe, they start as without it
  --preload NAME,...    modules to import before the fork (default: those that the program imports and that fork safely)
  --restore-caches DIR  start with the compiled kernels that an earlier job saved there
  --save-caches DIR     save them there at the end, from the first node
Each option has an equivalent variable: HPCMOD_LAUNCHER, HPCMOD_RANKS_PER_NODE, HPCMOD_PROFILE_RANK, ... Also:
  HPCMOD_TIMING=1       print at the end how long the ranks took to start: container, interpreter, imports, first step
  HPCMOD_RAY_WAIT=N     ray: seconds in which all nodes must have joined (default: 300)
  HPCMOD_RAY_START      ray: further options for "ray start" on each node, such as --object-store-memory=100000000000
  HPCMOD_CPUS=all       do not bind an unbound rank to the cores near its GPU
  HPCMOD_CACHE_ROOT     node-local directory for the caches of MIOpen, Triton, ...'

# Our options come before Python's own. Each has an equivalent variable; the option wins.
_options=(gpus-visible launcher ranks-per-node rdzv max-restarts tee profile-rank profiler profile-steps debug \
  save-caches restore-caches spawn preload no-python)

# ARGS -> _asked: values by option name; _rest: the arguments for Python; _only: explain or help, if requested.
read_options() {
  local name variable
  declare -gA _asked=()
  _only='' _rest=()
  for name in "${_options[@]}"; do
    variable=${name//-/_}
    variable=HPCMOD_${variable^^}
    _asked[$name]=${!variable-}
  done
  while (($#)) && is_option "$1"; do
    case $1 in
      --help | --hpcmod-help) _only=help ;;
      --hpcmod-explain) _only=explain ;;
      --spawn | --no-python) _asked[${1#--}]=1 ;;
      --*=*) name=${1#--} && _asked[${name%%=*}]=${1#*=} ;;
      *)
        (($# > 1)) || refuse "$1 needs a value. See: $_me --help"
        _asked[${1#--}]=$2
        shift
        ;;
    esac
    shift
    [[ ${1-} != -- ]] || { shift && break; }
  done
  _rest=("$@")
  if [[ $_only == help ]]; then
    printf '%s\n' "$_usage"
    exit
  fi
  source_parts
}

is_option() {
  local name=${1#--}
  [[ $1 == --* && " ${_options[*]} help hpcmod-help hpcmod-explain " == *" ${name%%=*} "* && $name != help=* ]]
}

check_options() {
  local debug IFS=,
  case ${_asked[launcher]} in
    '' | "$_task_launcher" | torchrun | accelerate | ray) ;;
    *) refuse "--launcher is '${_asked[launcher]}', expected $_task_launcher, torchrun, accelerate or ray" ;;
  esac
  for debug in ${_asked[debug]}; do
    case $debug in
      rccl | nccl | hip | miopen | torch | mpi) ;;
      gloo) refuse "--debug is 'gloo', whose log is part of PyTorch's. Use --debug torch" ;;
      *) refuse "--debug is '$debug', expected rccl, nccl, hip, miopen, torch, mpi, or several separated by commas" ;;
    esac
  done
  [[ ${_asked[gpus-visible]:-all} == @(one|all) ]] ||
    refuse "--gpus-visible is '${_asked[gpus-visible]}', expected one or all"
  check_torchrun_options
  check_ray_options
  [[ ! ${_asked[profile-rank]} ]] || check_profile
  [[ ! ${_asked[profile-steps]} ]] || { is_number "${_asked[profile-steps]}" && [[ ${_asked[profiler]} == torch ]]; } ||
    refuse "--profile-steps is '${_asked[profile-steps]}', expected a number, with --profiler torch"
  check_number ranks-per-node
}

check_number() { # OPTION
  [[ ! ${_asked[$1]} ]] || is_number "${_asked[$1]}" || refuse "--$1 is '${_asked[$1]}', which is not a number"
}

check_ray_options() {
  [[ ! ${_asked[no-python]} || ${_asked[launcher]} == ray ]] || refuse '--no-python needs --launcher ray'
  [[ ! ${_asked[ranks-per-node]} || ${_asked[launcher]} != ray ]] ||
    refuse "--ranks-per-node is for launchers that start ranks; Ray's tasks declare how many GPUs and CPUs they need"
  is_number "${HPCMOD_RAY_WAIT:-300}" || refuse "HPCMOD_RAY_WAIT is '$HPCMOD_RAY_WAIT', which is not a number of seconds"
}

check_torchrun_options() {
  local name
  for name in rdzv max-restarts tee; do
    [[ ! ${_asked[$name]} || ${_asked[launcher]} == torchrun ]] || refuse "--$name needs --launcher torchrun"
  done
  [[ ${_asked[rdzv]:-static} == @(static|c10d) ]] || refuse "--rdzv is '${_asked[rdzv]}', expected static or c10d"
  check_number max-restarts
  [[ ${_asked[tee]:-0} == [0-3] ]] || refuse "--tee is '${_asked[tee]}', expected 0 to 3: 1 stdout, 2 stderr, 3 both"
}

# Each part is read only if an option asks for it.
source_parts() {
  [[ $_only != explain ]] || source "$_lib/explain.bash"
  [[ ! ${_asked[debug]}${_asked[profile-rank]} ]] || source "$_lib/debug.bash"
  [[ ${_asked[launcher]:-$_task_launcher} == "$_task_launcher" ]] || source "$_lib/launch.bash"
  [[ ! ${_asked[save-caches]}${_asked[restore-caches]} ]] || source "$_lib/saved-caches.bash"
  [[ ! ${_asked[spawn]}${HPCMOD_FORK_HOST-} ]] || source "$_lib/fork.bash"
  [[ ${HPCMOD_TIMING:-0} == 0 && ${_asked[profiler]} != torch ]] || source "$_lib/timing.bash"
  [[ ${HPCMOD_TIMING:-0} == 0 ]] || begin_timing
}

# -> _before, _trace, _launch, and the variables of --debug
choose_extras() {
  check_options
  [[ ! ${_asked[profile-rank]} ]] || choose_profiler
  [[ ! ${_asked[debug]} ]] || offer_debug
  [[ ${_asked[launcher]:-$_task_launcher} == "$_task_launcher" ]] || choose_launch
}

start_extras() {
  [[ ! ${_asked[restore-caches]} ]] || restore_caches
  [[ ! ${_asked[debug]} ]] || start_debug
  [[ ! ${_asked[profile-rank]} ]] || find_profiler
}

# Instead of becoming Python: save the caches after it, wait for a forked rank, or start Ray.
run_with_extras() { # ARGS
  [[ ! ($_times || $_trace) ]] || start_measuring
  [[ ! ${_asked[save-caches]} ]] || runs_in_front || run_and_save "${_launch[@]}" "$@"
  run_rank "${_launch[@]}" "$@"
}

run_rank() { # ARGS
  [[ ! $_ray_head ]] || run_on_ray "${@:${#_launch[@]}+1}"
  [[ ! ${_asked[spawn]}${HPCMOD_FORK_HOST-} ]] || run_forked "$@"
  run_python "$@"
}
