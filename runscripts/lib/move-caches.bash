# Another directory for the caches. Read by move_caches, whose argument says why.

move_cache() { # VARIABLE VALUE WHY
  ! is_ours "$1" || put "$@"
}

_old_cache=$_cache
_cache=${TMPDIR:-/tmp}/${_cache##*/}-$$-$RANDOM
{ mkdir -m 700 -- "$_cache" && has_space "$_cache"; } 2>/dev/null ||
  stop 7 "no directory for caches: $_old_cache $1, and $_cache is not writable. Set HPCMOD_CACHE_ROOT"
((_place)) || say "$_old_cache $1; the caches are in $_cache"
each_cache move_cache
