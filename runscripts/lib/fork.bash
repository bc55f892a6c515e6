# Import once per node, and fork the ranks: --spawn. Each rank comes here with its own environment, cores and options, and
# becomes not Python, but a process that waits for its rank. With one container per node, ranks wait on the host: here, the
# first becomes the parent, and others only describe themselves.

# Start normally, without a message, if nothing is shared, or each start is measured.
wants_fork() {
  [[ ${_asked[spawn]} && $_launcher && ! (${_launch[*]-} || ${_asked[profile-rank]} || $_times || $_trace) ]] &&
    ((LOCAL_WORLD_SIZE > 1))
}

run_forked() { # ARGS
  local python=python directory=${HPCMOD_FORK_HOST-} token=${HPCMOD_FORK_TOKEN-} role
  ! wants_fork || find_fork_directory || run_python "$@"
  if ! wants_fork; then
    [[ ! $directory ]] || stop 7 'not with one-per-node: HPCMOD_TIMING, HPCMOD_PROFILE_RANK, --launcher'
    run_python "$@"
  fi
  activate_python
  hash -r
  hash python 2>/dev/null || python=python3
  role=(wait "$directory" "$_place" "$LOCAL_WORLD_SIZE" "${_asked[preload]}" "$_own_variables" --)
  if [[ $token ]]; then
    role=(describe "$directory" "$token" --)
  elif [[ ${HPCMOD_FORK_HOST-} ]]; then
    role=(lead "$directory" "$LOCAL_WORLD_SIZE" "${_asked[preload]}" "$_own_variables" "$((${#_arguments[@]} + 1))" "$_script" "${_arguments[@]}")
    cat "/proc/$$/environ" >"$directory/environment" || stop 7 "cannot write to $directory"
  fi
  [[ ! ${HPCMOD_FORK_HOST-} ]] || unset HPCMOD_SPAWN HPCMOD_FORK_HOST HPCMOD_FORK_PID HPCMOD_FORK_TOKEN
  exec "${_before[@]}" "$python" -I -S "$directory/sitecustomize.py" "${role[@]}" "$python" "$@"
}

find_fork_directory() { # -> directory, _own_variables: those that differ between ranks
  _own_variables="${_by[RANK]-} ${_by[LOCAL_RANK]-} RANK LOCAL_RANK HPCMOD_LOCAL_RANK"
  if [[ $directory ]]; then
    is_private "$directory" || stop 7 "$directory is not a private directory in the container"
    return
  fi
  own_cache_directory
  directory=$_cache/fork-${_step:-0}-$_job_restarts
  make_fork_directory "$directory"
}

# A private directory of this step on this node, with the program that forks ranks.
make_fork_directory() { # DIRECTORY
  [[ -d $1 ]] || mkdir -m 700 -- "$1" 2>/dev/null
  is_private "$1" || return 1
  [[ -e $1/sitecustomize.py ]] && return
  cat -- "$_lib/fork_ranks.py" >"$1/$$" && mv -f -- "$1/$$" "$1/sitecustomize.py"
}
