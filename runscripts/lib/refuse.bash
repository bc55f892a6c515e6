# Print a message once per node and run, from whichever rank comes first, since only one of them may see the error; then end.
# An empty file that only one of them can create marks that it was printed.
is_said() {
  local run=${_told[RUN]-} mark=${HPCMOD_CACHE_ROOT:-$_cache_root}
  [[ $run && $_only != explain ]] || return 1
  is_plain "$run" || { number_of "$run" 2>/dev/null && run=$REPLY; }
  [[ -d $mark ]] || mkdir -p -- "$mark" 2>/dev/null
  mark+=/$UID-hpcmod-refused-$run-${_step:-0}-$_job_restarts
  ! (set -C && : >"$mark") 2>/dev/null && [[ -O $mark && ! -L $mark ]]
}

! is_said || exit 2
[[ ${_told[RANK]-} != [1-9]* ]] || set -- "rank ${_told[RANK]}: $1"
stop 2 "$1"
