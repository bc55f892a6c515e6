# Start the image of the module from outside the container.

find_image() { # -> _image
  _image=${!_sif_variable-}
  [[ $_image ]] || stop 3 "$_sif_variable is not set. Load the module first: module load $_module"
  [[ $_image == /* && -e $_image ]] || stop 3 "image '$_image' not found. Load the module again: module load $_module
If that does not help, reinstall the container."
}

find_runtime() { # -> _runtime
  for _runtime in singularity apptainer; do
    find_program "$_runtime" && _runtime=$REPLY && return
  done
  stop 7 'no container runtime on this node: neither singularity nor apptainer is on PATH'
}

# The GPU flags of the site's profile, as variables of the runtime, so that its options still decide (--nv=false). On a node
# without GPUs they do nothing, or make the runtime warn.
pass_gpus() {
  local i names name
  for ((i = 0; i < ${#_gpu_flags[@]}; i += 2)); do
    names=("APPTAINER_${_gpu_flags[i]}" "SINGULARITY_${_gpu_flags[i]}")
    [[ -e ${_gpu_flags[i + 1]} && ! ${!names[0]+set} && ! ${!names[1]+set} ]] || continue
    for name in "${names[@]}"; do export "$name=1"; done
  done
}

# The runtime prints warnings and errors, but not the same information once in every rank; its options still decide (-v).
be_quiet() {
  export APPTAINER_QUIET=${APPTAINER_QUIET-1} SINGULARITY_QUIET=${SINGULARITY_QUIET-1}
}

# A shell in the container takes 12 ms, and is not needed if the module has put the image's Python on PATH.
find_first() { # -> _first
  local entry=$_python_bin path=${APPTAINERENV_PREPEND_PATH-${SINGULARITYENV_PREPEND_PATH-}}
  _first=()
  [[ ! $_has_bash || $entry && :$path: == *":$entry:"* ]] || _first=(/runscripts/run-in-env)
}

# If another container was loaded first, its variables are set and not this one's: replace them.
resolve_environment() {
  local memory=_HPCMOD_${_sif_variable#SIF} exports
  if [[ " ${!memory-} " != *' ADDITIONAL=yes '* ]]; then
    resolve_binds
    return
  fi
  exports=$("$_here/in-environment" exports) || exit
  eval "$exports"
}

run_in_image() { # COMMAND ARGS
  find_image
  find_runtime
  offer_host_commands
  resolve_environment
  bind_host_commands
  find_first
  guard_container
  export_settings
  pass_gpus
  be_quiet
  keep_mounted
  exec -- "$_runtime" exec "$_image" "${_first[@]}" "$@"
}

# Keep the host's Python out of the container: _guard of settings.bash. Variables that were set before the module was loaded
# are known by a variable of the module. Most often, none is set.
guard_container() {
  local memory
  set -- "${_guard[@]}" # name, value, when
  while (($#)); do
    memory=_HPCMOD_${_sif_variable#SIF}_$1
    [[ ! ${HPCMOD_KEEP_ENV-}${!memory-} && ($3 != always || ! $2${!1-}) ]] || {
      source "$_here/libexec/hosts.bash"
      guard_variable "$1" "$2" "$3" "$memory"
    }
    shift 3
  done
}

# Slurm sends signals to every process of a step, also to the one that serves the container's root file system: the program
# would lose its files before it has written its checkpoint. A runtime without its own squashfuse_ll searches PATH for it and
# finds ours, which ignores signals and ends with the container.
_standard_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

keep_mounted() {
  local mine=$_here/libexec real
  [[ $_job && -x $mine/squashfuse_ll ]] && PATH=$_standard_path find_program squashfuse_ll || return 0
  real=$REPLY
  ! find_program squashfuse_ll || [[ $REPLY -ef $real ]] || return 0
  export PATH="$mine:$PATH"
}

# Commands of the host for programs in the container, if the user asks for them.
_host_directory=''

offer_host_commands() { # -> _host_directory
  case ${HPCMOD_HOST_COMMANDS-} in '' | 0) return ;; esac
  [[ ${_host_commands[*]} ]] || { say "no command of the host is available in the container: add host_commands.allowed to the site profile, then: hpcmod update $_module --site PROFILE" && return; }
  source "$_here/libexec/host-commands.bash"
  start_host_helper
}

bind_host_commands() { [[ ! $_host_directory ]] || bind_host_directory; }

# A host program that calls python3 means the host's. Users and their own scripts mean the container's.
# -> REPLY: the host's command, if the caller is a host program and the host has this command
find_for_host() { # ARGS
  local words=() stat
  # Started by its shebang line, #!/usr/bin/env python3; or EasyBuild, whose `eb` ends with an `exec` that hides it.
  if [[ ${1-} == /* ]] && source "$_here/libexec/hosts.bash" && is_host_program "$1" ||
    [[ "${*:1:2}" == '-m easybuild.main' ]]; then
    find_program "$_me"
    return
  fi
  { mapfile -d '' -t words <"/proc/$PPID/cmdline"; } 2>/dev/null || return 1
  if [[ ${words[0]##*/}${words[1]-} == bash-c && ${words[2]-} != *$'\n'* ]]; then # bash 4 stays until its end
    read -r stat <"/proc/$PPID/stat" && read -r _ stat _ <<<"${stat##*) }"
    { mapfile -d '' -t words <"/proc/$stat/cmdline"; } 2>/dev/null # 0: outside of it
  fi
  set -- "${words[@]:1}"
  while [[ ${1-} == -* ]]; do
    [[ $1 != -*[cm] ]] || return 1 # a command line or a Python module, not a script
    shift
  done
  [[ ${1-} ]] && source "$_here/libexec/hosts.bash" || return 1
  is_host_program "$1" && ! runs_commands_of_users "$1" || return 1
  [[ " ${*:2} " != *" $_me "* ]] || return 1 # as in `xvfb-run python3 train.py`: the user chose the command
  find_program "$_me"
}
