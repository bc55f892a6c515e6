# For commands other than ranks: programs on PATH, settings of the machine.

# NAME -> REPLY: its path on PATH. Skips relative directories, and wrappers, which would call each other forever.
find_program() {
  local IFS=: directory
  for directory in ${PATH-}; do
    REPLY=$directory/$1
    [[ $directory == /* && $directory != "$_root/bin" && -f $REPLY && -x $REPLY ]] && ! is_wrapper "$REPLY" && return
  done
  return 1
}

# NAME -> _words: its command line in the easyconfig, or the command of this name
find_words() {
  local i
  _words=("$1")
  for ((i = 0; i < ${#_command_lines[@]}; i += 2 + _command_lines[i + 1])); do
    [[ ${_command_lines[i]} != "$1" ]] || _words=("${_command_lines[@]:i + 2:_command_lines[i + 1]}")
  done
}

is_wrapper() { # FILE
  local start=
  [[ ! -r $1 ]] || IFS= read -r -d '' -n 60 start <"$1"
  [[ $start == *'# hpcmod wrapper'* ]]
}

# According to the scheduler or the launcher; see common.bash and ranks.bash.
is_multi_node() {
  local nodes=${_step_nodes:-${OMPI_MCA_orte_num_nodes-}}
  [[ ${OMPI_COMM_WORLD_SIZE-} == "${OMPI_COMM_WORLD_LOCAL_SIZE-}" ]] || return 0
  [[ ! ${MPI_LOCALNRANKS-} || ${PMI_SIZE-} == "$MPI_LOCALNRANKS" ]] || return 0
  [[ ! ${PALS_LOCAL_SIZE-} || ${PALS_SIZE:-${PMI_SIZE-}} == "$PALS_LOCAL_SIZE" ]] || return 0
  [[ $nodes && $nodes != 1 ]]
}

# An existing value wins, even if empty.
export_settings() {
  if is_multi_node; then export_unset "${_settings_multi_node[@]}"; else export_unset "${_settings_single_node[@]}"; fi
  export_unset "${_settings[@]}"
}

export_unset() { # VARIABLE VALUE ...
  while (($#)); do
    [[ ${!1+set} ]] || export "$1=$2"
    shift 2
  done
}
