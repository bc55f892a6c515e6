# Start the image's Python, with the settings of the machine. Needs settings.bash and job.bash.

# The module or the wrapper sets variables of the host's Python to empty. Unset them for programs in the container.
forget_host_python() {
  local i name
  for ((i = 0; i < ${#_guard[@]}; i += 3)); do
    name=${_guard[i]}
    [[ ${_guard[i + 1]} || ${!name-not set} ]] || unset "$name"
  done
}

activate_python() {
  forget_host_python
  [[ ${WITH_CONDA-} ]] && ! python_is_active || return 0
  local before=$PATH libraries=${LD_LIBRARY_PATH-}
  forget_other_conda
  # Conda's own scripts read unset variables, and some of them print to stdout, which belongs to the program.
  set +u
  eval "$WITH_CONDA" >&2 || stop 7 "cannot activate the image's Python environment with WITH_CONDA='$WITH_CONDA'"
  set -u
  # Activation puts its own directories first, but the user's packages must precede the image's.
  [[ ! ${VIRTUAL_ENV-} ]] || stay_first "$VIRTUAL_ENV/bin" "$before"
  stay_first /runscripts "$before"
  # The host's network libraries, if the module has put them first.
  [[ $libraries != /host/lib:* || $LD_LIBRARY_PATH == /host/lib:* ]] || LD_LIBRARY_PATH=/host/lib:$LD_LIBRARY_PATH
}

# The conda environment that the last word of WITH_CONDA names is on PATH, and only the user's python comes before it.
python_is_active() {
  local prefix=${CONDA_PREFIX-}
  [[ ${prefix##*/} == "${WITH_CONDA##* }" && -x $prefix/bin/python && :$PATH: == *":$prefix/bin:"* ]] || return 1
  hash python
  [[ ${BASH_CMDS[python]} == "$prefix/bin/python" || ${BASH_CMDS[python]} == "${VIRTUAL_ENV:-none}/bin/python" ]]
}

# Variables of a conda on the host, which is not on PATH here: conda would first deactivate it.
forget_other_conda() {
  [[ :$PATH: == *":${CONDA_PREFIX:-none}/bin:"* ]] ||
    unset CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_SHLVL CONDA_PROMPT_MODIFIER
}

stay_first() { # DIRECTORY PATH
  [[ :$2: != *":$1:"* ]] || PATH=$1:$PATH
}

_before=() # command in front of python, e.g. a profiler
_last=()   # command of this script that is run last, with the arguments for python

run_python() { # ARGS
  activate_python
  hash -r
  [[ ! ${_last[*]} ]] || "${_last[@]}" "$@"
  ! hash python 2>/dev/null || exec "${_before[@]}" python "$@"
  ! hash python3 2>/dev/null || exec "${_before[@]}" python3 "$@"
  stop 127 "Python not found: neither python nor python3 on PATH=$PATH, with WITH_CONDA='${WITH_CONDA-}'"
}
