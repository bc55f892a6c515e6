# Compiled kernels of an earlier job, one archive for all nodes: --restore-caches and --save-caches.
restore_caches() {
  local from=${_asked[restore-caches]}
  [[ -d $_cache && ! -e $_cache/restored ]] || return 0
  if [[ ! -r $from/hpcmod-caches.tar ]]; then
    [[ ${RANK:-0} != 0 ]] || say "no caches to restore: $from/hpcmod-caches.tar not found"
    return
  fi
  run_helper restore "$from" || say "cannot restore all caches from $from"
}

run_helper() { # VERB DIRECTORY
  local _before=() _last=() # no profiler
  (run_python -I "$_lib/saved_caches.py" "$1" "$_cache" "$2")
}

# The first rank of the first node runs Python as a child, to save the caches afterwards, and forwards signals.
runs_in_front() { [[ ! ${_asked[save-caches]} || $_place != 0 || ${NODE_RANK:-${RANK:-0}} != 0 ]]; }

run_and_save() { # ARGS
  local signal status=0
  # By default, a background command of bash ignores SIGINT and reads from /dev/null.
  (trap - INT QUIT && run_rank "$@") <&0 &
  _child=$!
  register_rank "$_child"
  for signal in TERM INT HUP QUIT USR1 USR2; do
    # shellcheck disable=SC2064 # expand both now
    trap "kill -$signal $_child 2>/dev/null" "$signal"
  done
  until wait "$_child" || ! kill -0 "$_child" 2>/dev/null; do :; done
  wait "$_child" || status=$?
  save_caches
  exit "$status"
}

save_caches() {
  local to=${_asked[save-caches]}
  [[ $to == /* ]] || to=$PWD/$to
  [[ ! -d $_cache ]] || run_helper save "$to" || say "cannot save the caches in $to"
}
