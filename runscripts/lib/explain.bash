# --hpcmod-explain: print each variable with its value, and the file, the line and the reason that decided it.

declare -gA _origin=() # variable -> file:line
_names=()              # of these variables, in order

put() { # VARIABLE VALUE WHY
  _why[$1]=$3
  note_origin "$1"
  declare -gx "$1=$2"
}

# The call of the first function that is not one of those that any part uses to set a variable; in a table, the row.
note_origin() { # VARIABLE
  local i=2 file
  [[ ${_origin[$1]-} ]] || _names+=("$1")
  while [[ ${FUNCNAME[i]} == @(offer|each_cache|offer_list|offer_log|offer_settings) ]]; do ((i++)); done
  file=${BASH_SOURCE[i]}
  [[ ${_why[$1]} != _settings* ]] || file=$_lib/settings.bash
  REPLY=${BASH_LINENO[i - 1]}
  find_row "$file" "$1" "${_why[$1]}"
  [[ $file != "$_lib"/* ]] || file=lib/${file##*/}
  _origin[$1]=${file##"${_script%/*}"/}:$REPLY
}

# FILE VARIABLE LIST -> REPLY: the row of a table that begins with the variable, else unchanged; for a list of settings.bash
# also _why: the comment of the row.
find_row() {
  local lines row=0 from=0
  mapfile -t lines <"$1"
  for row in "${!lines[@]}"; do
    [[ ${lines[row]} != "$3=("* ]] || from=$row
    ((row >= from)) && [[ ${lines[row]} == "  $2 "[!=]* && ($3 != _settings* || $from != 0) ]] || continue
    REPLY=$((row + 1))
    [[ $3 != _settings* ]] || explain_setting "$3" "${lines[row]}" "$2"
    return
  done
}

explain_setting() { # LIST ROW VARIABLE
  local when='for every run'
  case $1 in
    *_multi_node) when='on several nodes' ;;
    *_single_node) when='on one node' ;;
  esac
  _why[$3]=$when
  [[ $2 != *"' # "* ]] || _why[$3]+=": ${2##*"' # "}"
}

explain() {
  local name pair why
  for name in "${_names[@]}"; do
    why=${_why[$name]-}
    [[ $why && ${!name+set} ]] || continue
    [[ $why == 'already set' ]] || why="${_origin[$name]}: $why"
    printf -v pair '%s=%q' "$name" "${!name}"
    printf '%-60s # %s\n' "$pair" "$why"
  done
  explain_place
  printf '# started by: %s\n# runs:' "${_launcher:-no launcher}"
  printf ' %q' "${_before[@]}" python "${_launch[@]}" "$@"
  printf '\n'
}

# Where the rank would run, as far as is known without starting anything.
explain_place() {
  local before="${_before[*]}" cores=unknown interface networks=()
  ! read_open_cpus || cores=$REPLY
  [[ $before != *"taskset -c "* ]] || { before=${before#*taskset -c } && cores=${before%% *}; }
  for interface in /sys/class/net/*; do
    interface=${interface##*/}
    [[ ,${NCCL_SOCKET_IFNAME:-lo}, != *,"$interface",* && $interface != "${NCCL_SOCKET_IFNAME:-lo}"* ]] || networks+=("$interface")
  done
  printf '# runs on: %s, cores %s, GPUs %s, network %s\n' "${_node_name:-this node}" "$cores" \
    "${_gpus_shown:-as detected by the runtime}" "${networks[*]:-as detected by the runtime}"
}
