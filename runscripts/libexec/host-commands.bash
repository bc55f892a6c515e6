# Commands of the host that programs in the container may run, such as the scheduler's, if the user asks for them. A helper
# outside runs them until the container ends: it is started first, so that they get the user's environment.
_in_container_host=/hostcommands

start_host_helper() { # -> _host_directory
  local - IFS=$' ,\t\n' wanted=${HPCMOD_HOST_COMMANDS-} word python programs=()
  set -f
  [[ $wanted != 1 ]] || wanted="${_host_commands[*]##*/}"
  for word in $wanted; do
    find_host_command "$word" && programs+=("$word=$REPLY")
  done
  [[ ${programs[*]} ]] || stop 7 "none of these commands is on this node: $wanted"
  find_host_python || stop 7 'commands of the host need Python 3.6 or newer on this node. Leave them out: HPCMOD_HOST_COMMANDS=0'
  python=$REPLY
  _host_directory=$("$python" -I -S "$_here/libexec/host-commands" "$$" /tmp \
    "$_here/libexec/host-command" "$_host_environment" \
    "$_host_refused_options" "${programs[@]}") && [[ $_host_directory ]] ||
    stop 7 'the helper for commands of the host did not start. Leave them out: HPCMOD_HOST_COMMANDS=0'
}

find_host_command() { # NAME -> REPLY: its path
  local allowed
  for allowed in "${_host_commands[@]}"; do
    [[ ${allowed##*/} == "$1" ]] || continue
    REPLY=$allowed
    if [[ $allowed == /* ]]; then [[ -f $allowed && -x $allowed ]]; else find_program "$allowed"; fi
    return
  done
  stop 9 "command '$1' of the host is not allowed in the container: the site profile allows ${_host_commands[*]##*/}"
}

find_host_python() { # -> REPLY
  for REPLY in /usr/bin/python3 /usr/libexec/platform-python; do
    [[ ! -x $REPLY ]] || return 0
  done
  find_program python3
}

bind_host_directory() {
  local bind name path=${SINGULARITYENV_PREPEND_PATH-${APPTAINERENV_PREPEND_PATH-}}
  bind=$_host_directory:$_in_container_host:ro
  for name in SINGULARITY APPTAINER; do
    export "${name}ENV_PREPEND_PATH=$_in_container_host${path:+:$path}"
  done
  path=${SINGULARITY_BINDPATH-${APPTAINER_BINDPATH-}}
  for name in SINGULARITY APPTAINER; do
    export "${name}_BINDPATH=${path:+$path,}$bind"
  done
}
