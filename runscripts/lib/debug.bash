# One file per rank: the mixed output of many is slow and unreadable. The variables are documented by NCCL, ROCm
# (HIP), MIOpen, PyTorch (torch.distributed) and HPE Cray MPI (intro_mpi). The last three write to stderr only.
offer_debug() {
  local debug place IFS=,
  place=${HPCMOD_DEBUG_DIR:-$PWD/hpcmod-debug-${_job:-$UID}}
  _debug_dir=$place
  for debug in ${_asked[debug]}; do
    case $debug in
      rccl | nccl) offer_log NCCL_DEBUG INFO NCCL_DEBUG_SUBSYS INIT,COLL NCCL_DEBUG_FILE "$place/$debug-rank$RANK.log" ;;
      hip) offer_log AMD_LOG_LEVEL 4 AMD_LOG_LEVEL_FILE "$place/hip-rank$RANK.log" ;;
      miopen) offer_log MIOPEN_ENABLE_LOGGING 1 MIOPEN_LOG_LEVEL 6 ;;
      torch) offer_log TORCH_DISTRIBUTED_DEBUG DETAIL TORCH_CPP_LOG_LEVEL INFO ;;
      mpi) offer_log MPICH_ENV_DISPLAY 1 MPICH_OFI_VERBOSE 1 MPICH_OFI_NIC_VERBOSE 1 ;;
    esac
    [[ $debug != @(miopen|torch|mpi) ]] || _stderr=$place/$debug-rank$RANK.log
  done
}

offer_log() { # VARIABLE VALUE ...
  while (($#)); do
    offer "$1" "$2" --debug
    shift 2
  done
}

start_debug() {
  mkdir -p -- "$_debug_dir" || stop 7 "cannot create the debug directory $_debug_dir. Set HPCMOD_DEBUG_DIR"
  ((RANK)) || say "debug output of each rank: $_debug_dir${_stderr:+, with all of its stderr}"
  [[ ! $_stderr ]] || exec 2>>"$_stderr"
}

# Known profilers are started as their documentation says; any other command as it is.
choose_profiler() { # -> _before, _trace
  local IFS=, rank file
  file=$PWD/hpcmod-profile-${_job:-$$}-rank$RANK
  for rank in ${_asked[profile-rank]}; do
    [[ $((10#$rank)) == "$RANK" ]] || continue
    IFS=$' \t\n'
    case $_profiler in
      rocprofv3) _before+=(rocprofv3 --hip-trace --stats --output-directory "$file" --) ;;
      rocprof) _before+=(rocprof --hip-trace --stats -o "$file.csv") ;;
      nsys) _before+=(nsys profile --force-overwrite=true "--output=$file") ;;
      py-spy) _before+=(py-spy record --output "$file.svg" --) ;;
      py-spy:speedscope) _before+=(py-spy record --format speedscope --idle --output "$file.speedscope.json" --) ;;
      perf) _before+=(perf record -g "--output=$file.perf.data" --) ;;
      torch) _trace=${_asked[profile-steps]:-3}:$file.json ;;
      *)
        local -a words
        read -ra words <<<"$_profiler"
        _before+=("${words[@]}")
        ;;
    esac
    return
  done
}

# In all ranks, because the others would wait.
find_profiler() {
  local program=${_profiler%:speedscope}
  activate_python
  [[ $program != torch ]] || return 0
  hash -- "${program%% *}" 2>/dev/null || refuse "profiler '${program%% *}' not found in this image, PATH=$PATH. For py-spy: hpcmod add $_module py-spy"
}

# The requested profiler, or the first of this machine that the image has, or the first.
check_profile() { # -> _profiler
  local IFS=, rank name
  _profiler=${_asked[profiler]}
  for name in "${_profilers[@]}"; do
    [[ $_profiler ]] || ! hash -- "$name" 2>/dev/null || _profiler=$name
  done
  : "${_profiler:=${_profilers[0]-}}"
  for rank in ${_asked[profile-rank]}; do
    { is_number "$rank" && ((10#$rank < WORLD_SIZE)); } ||
      refuse "--profile-rank is '$rank', but the ranks are 0 to $((WORLD_SIZE - 1))"
  done
  [[ $_profiler ]] || refuse 'no profiler is known for this machine. Choose one: --profiler py-spy'
  [[ ${_asked[launcher]:-$_task_launcher} == "$_task_launcher" ]] ||
    refuse "--profile-rank needs one task per rank, but ${_asked[launcher]} starts the ranks itself"
}
