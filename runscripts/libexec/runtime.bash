# For wrapper: the runtime itself, but commands get the binds and GPUs of their node, and builds no variable that the module
# sets for its own image: a bind could make them fail.

# The first word that is not an option of the runtime. -> REPLY
find_verb() { # ARGS
  REPLY=
  while (($#)); do
    case $1 in
      -c | --config) shift ;;
      -*) ;;
      *) REPLY=$1 && return ;;
    esac
    shift || return 0
  done
}

forget_module() {
  local i
  unset SINGULARITY_BIND APPTAINER_BIND SINGULARITY_BINDPATH APPTAINER_BINDPATH
  unset SINGULARITYENV_PREPEND_PATH APPTAINERENV_PREPEND_PATH
  ((!${#_container_variables[@]})) || unset "${_container_variables[@]}"
  for ((i = 0; i < ${#_guard[@]}; i += 3)); do unset "SINGULARITYENV_${_guard[i]}" "APPTAINERENV_${_guard[i]}"; done
}

find_verb "$@"
if ! in_container; then
  source "$_here/libexec/binds.bash"
  source "$_here/libexec/outside.bash"
  case $REPLY in
    build) forget_module ;;
    exec | run | shell | test | instance)
      if [[ " $* " == *" ${!_sif_variable-//} "* ]]; then
        be_quiet
        [[ $REPLY != run || $_has_entry ]] ||
          stop 2 "${!_sif_variable} has no run script, so nothing would run. Write $_me exec, not $_me run"
      fi
      [[ $REPLY == test || $REPLY == instance ]] || offer_host_commands
      resolve_environment
      bind_host_commands
      guard_container
      pass_gpus
      keep_mounted
      [[ ! ${!_sif_variable-} ]] || export_settings
      ;;
  esac
fi
# A site may have only one of the two; its commands are the same.
for _runtime in "$_me" singularity apptainer; do
  ! find_program "$_runtime" || exec -- "$REPLY" "$@"
done
stop 7 'no container runtime on this node: neither singularity nor apptainer is on PATH'
