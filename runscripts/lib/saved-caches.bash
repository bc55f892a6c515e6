# Compiled kernels of an earlier job, one archive for all nodes. The first rank on a node unpacks it while the others wait for
# the lock, which is released even if that rank dies.
restore_caches() {
  local archive=${_asked[restore-caches]}/hpcmod-caches.tar lock
  [[ ${_asked[restore-caches]} && -d $_cache ]] || return 0
  if [[ ! -r $archive ]]; then
    [[ ${RANK:-0} != 0 ]] || say "no caches to restore: $archive not found"
    return
  fi
  exec {lock}>"$_cache/lock"
  flock "$lock"
  [[ -e $_cache/restored ]] ||
    { tar -C "$_cache" -xf "$archive" && : >"$_cache/restored"; } || say "cannot restore all caches from $archive"
  exec {lock}>&-
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
  [[ -d $_cache ]] || return 0
  [[ $to == /* ]] || to=$PWD/$to
  (write_archive "$to") || say "cannot save the caches in $to"
}

# The directory may be shared by a group. Write the archive to a new private directory, then rename it.
write_archive() { # DIRECTORY
  local private=$1/.hpcmod-caches.$$.$RANDOM$RANDOM status=0
  [[ ! -d $1/hpcmod-caches.tar ]] || return
  mkdir -p -- "$1" && mkdir -m 700 -- "$private" && cd -- "$private" && is_private . || return
  tar -C "$_cache" --exclude=./lock --exclude=./restored --exclude=./.space --exclude=./timing --exclude='./.rank-*' -cf - . \
    >hpcmod-caches.tar || status=$?
  # 1: a file changed while being read, because other ranks of the node may still be running
  ((status <= 1)) && mv -f -- hpcmod-caches.tar "$1" || status=2
  rm -f -- hpcmod-caches.tar
  cd / && rmdir -- "$private"
  ((status <= 1))
}
