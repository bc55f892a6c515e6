in_container() { [[ ${APPTAINER_CONTAINER-} || ${SINGULARITY_CONTAINER-} || -d /.singularity.d ]]; }

# NAME -> REPLY: its path on PATH. Skips relative directories, and wrappers, so that two wrappers do not call each other
# forever.
find_program() {
  local IFS=: directory
  for directory in ${PATH-}; do
    REPLY=$directory/$1
    [[ $directory == /* && -f $REPLY && -x $REPLY ]] && ! is_wrapper "$REPLY" && return
  done
  return 1
}

is_wrapper() { # FILE
  local start=
  IFS= read -r -d '' -n 60 start 2>/dev/null <"$1"
  [[ $start == *'# hpcmod wrapper'* ]]
}
