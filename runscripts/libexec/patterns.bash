# For binds.bash: binds with a pattern as their source.

# PATTERN -> REPLY: the newest path that matches, 1.10 before 1.9, and numbers before words. Captured libraries have a link
# to their original: those with an original on this node come first, so nodes that are not updated yet keep theirs.
newest() {
  local - IFS='' path key rest number best=
  name_kernel "$1"
  set -- "$REPLY"
  REPLY=
  set +f
  for path in $1; do
    key=0 rest=$path
    [[ ! -e $path/.on-host ]] || key=1
    while [[ $rest =~ ^([^0-9]*)([0-9]+)(.*)$ ]]; do
      printf -v number '%12s' "${BASH_REMATCH[2]}"
      key+=${BASH_REMATCH[1]}~${number// /0} rest=${BASH_REMATCH[3]}
    done
    key+=$rest
    [[ -e $path && (! $REPLY || $key > $best) ]] && REPLY=$path best=$key
  done
}

# PATTERN -> REPLY: with the release of this node's kernel
name_kernel() {
  local release=
  [[ $1 != *'{uname_r}'* || ! -r /proc/sys/kernel/osrelease ]] || read -r release </proc/sys/kernel/osrelease
  REPLY=${1//'{uname_r}'/$release}
}
