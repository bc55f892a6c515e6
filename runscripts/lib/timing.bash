# With HPCMOD_TIMING, a rank records when its container, this script, Python and its first step began, in a file of the private
# node-local directory $_cache/timing. Times are seconds since the start of the node. Nothing here may end the rank.
begin_timing() { # -> _times
  find_uptime && _times=$REPLY || _times=
}

find_uptime() { # -> REPLY
  { read -r REPLY _ </proc/uptime; } 2>/dev/null && [[ $REPLY == [0-9]* ]]
}

# -> REPLY: when the launcher started the process around the container, in seconds since the start of the node
find_task_time() {
  local name text ticks
  local -a stat
  { read -r name <"/proc/$PPID/comm" && read -r text <"/proc/$PPID/stat"; } 2>/dev/null || return 1
  [[ $name == starter* || $name == Apptainer* || $name == Singularity* ]] || return 1
  read -ra stat <<<"${text##*) }"
  ticks=${stat[19]-}
  [[ $ticks ]] && is_number "$ticks" || return 1
  printf -v REPLY '%d.%02d' "$((ticks / 100))" "$((ticks % 100))" # USER_HZ is 100 on all machines
}

# Options of Python that would ignore PYTHONPATH, or the file that it finds there.
ignores_probe() { # ARGS
  while [[ ${1-} == -?* && $1 != -[cm] ]]; do
    [[ $1 != -[!-]*[EIS]* && $1 != -[EIS]* ]] || return 0
    shift
  done
  return 1
}

# -> _probe: directory for PYTHONPATH, _record: file of this rank; empty if there is nothing to measure
start_measuring() {
  local directory=$_cache/timing file
  _probe='' _record=''
  [[ ($_times || $_trace) && ! ${_launch[*]} ]] || return 0
  make_private "$_cache" && is_private "$_cache" || return 0
  { [[ -d $directory ]] || mkdir -m 700 -- "$directory" || [[ -d $directory ]]; } 2>/dev/null || return 0
  is_private "$directory" || return 0
  if [[ $_times ]]; then
    file=$directory/rank-${_step_number:-0}-$RANK
    (set -C && write_record >"$file") 2>/dev/null && _record=$file
  fi
  [[ $_record || $_trace ]] || return 0
  file=$directory/.$$
  if [[ ! -f $directory/sitecustomize.py ]]; then
    { cat -- "$_lib/probe.py" >"$file" && mv -f -- "$file" "$directory/sitecustomize.py"; } 2>/dev/null || return 0
  fi
  _probe=$directory _last=(export_probe)
}

write_record() {
  printf 'host %s\nscript %s\n' "${_node_name:-${HOSTNAME:-unknown}}" "$_times"
  ! find_task_time || printf 'task %s\n' "$REPLY"
}

# Just before Python: what it is told, and restores before the program starts.
export_probe() { # ARGS
  [[ $_probe ]] && ! ignores_probe "$@" || return 0
  export _HPCMOD_PROBE=$_probe _HPCMOD_RECORD=$_record _HPCMOD_TRACE=$_trace
  export _HPCMOD_PYTHONPATH=${PYTHONPATH+x$PYTHONPATH}
  export PYTHONPATH=$_probe${PYTHONPATH:+:$PYTHONPATH}
}
