# One task per node, the keeper, creates the directory of the staged files, verifies them, and removes them when its caller is
# gone, or when the job ends: a batch script that was cancelled cannot start another step for that.

need_file() { # FILE -> _file, _size
  _file=$(realpath -e -- "$1" 2>/dev/null)
  [[ -f $_file && -r $_file ]] || stop 3 "cannot read the file '$1'"
  _size=$(stat -c %s -- "$_file") || stop 3 "cannot determine the size of $_file"
}

need_place() { # DIRECTORY -> _place, _directory
  _place=${1%/}
  [[ $_place == /* && $_place != *[[:cntrl:],:]* ]] ||
    stop 2 "cannot stage to '$1': expected an absolute path without commas and colons"
  _directory=$_place/hpcmod-$UID-$_job-$$
}

# Nodes reply with lines: NODE WORD TEXT.
start_keepers() {
  coproc KEEPERS { talk_to_nodes hpcmod-stage /bin/bash -p "$_script" --keep "$_directory" "$_size"; }
  _from=${KEEPERS[0]} _to=${KEEPERS[1]} _keepers=$KEEPERS_PID
  trap '' PIPE # report a keeper that has ended, instead of ending this script
  all_answer
}

tell() {
  { printf '%s\n' "$1" >&"$_to"; } 2>/dev/null && return
  say 'a node ended before it received its instructions'
  return 1
}

_patience=60 # seconds without a reply after which a node counts as lost
_line='' _lost=''
declare -A _seen=() # by node: when it last said anything, in seconds of this script

# -> _answers, one per node, and _answered, the nodes in the same order; status 1 if a node reports a failure or is lost.
all_answer() {
  local node word text status=0 missing=$((${#_seen[@]} ? ${#_seen[@]} : _nodes)) checked=$SECONDS
  local -A replied=()
  _answers=() _answered=()
  for node in "${!_seen[@]}"; do _seen[$node]=$SECONDS; done
  while ((missing > 0)); do
    read_line
    case $? in
      0) hear "$_line" && _line='' ;;
      1) ;;
      *) say 'a node ended before it replied' && return 1 ;;
    esac
    ((SECONDS < checked + 10)) || { checked=$SECONDS && leave_out_silent; }
  done
  [[ ! $_lost ]] && return "$status"
}

# -> _line; status 1: no complete line for some seconds; 2: all keepers have ended.
read_line() {
  local part status=0
  IFS= read -r -t 10 -u "$_from" part || status=$?
  _line+=$part
  return $((status > 128 ? 1 : status * 2))
}

hear() { # LINE
  IFS=' ' read -r node word text <<<"$1"
  _seen[$node]=$SECONDS
  [[ $word == good || $word == bad ]] || return 0
  replied[$node]=1 missing=$((missing - 1))
  _answers+=("$text") _answered+=("$node")
  [[ $word == good ]] || { say "$node: $text" && status=1; }
  return 0
}

leave_out_silent() {
  for node in "${!_seen[@]}"; do
    ((SECONDS > _seen[$node] + _patience)) || continue
    say "$node: no reply for $_patience s"
    unset "_seen[$node]"
    _lost=1
    [[ ${replied[$node]-} ]] || ((missing -= 1))
  done
}

# Without this, the keepers remove everything when this script ends.
leave_keepers() { tell keep; }

end_keepers() {
  exec {_to}>&- {_from}<&-
  wait "$_keepers" 2>/dev/null
}

# The scheduler sends the file to all nodes, and reads the shared file system once. Each copy is compared with the file by sha256,
# because one may be cut short without an error.
send_file() { # NAME: of the file on the nodes
  local i sum sums
  exec {sums}< <(sha256sum <"$_file")
  if ! send_to_nodes "$_file" "$_directory/.part"; then
    say 'each node copies the file itself'
    tell "copy $_file" && all_answer || return 1
  fi
  tell sum && all_answer && IFS=' ' read -r -u "$sums" sum _ || return 1
  exec {sums}<&-
  for i in "${!_answers[@]}"; do
    [[ ${_answers[i]} == "$sum" ]] || { say "the copy of ${_answered[i]} differs from $_file" && return 1; }
  done
  tell "place $1" && all_answer
}

# From here on: code that runs on each node.

answer() { # COMMAND ARGS: print good or bad, and the command's REPLY
  local word=bad
  REPLY=
  if "$@"; then word=good; fi
  printf '%s %s %s\n' "${_node_name:-$HOSTNAME}" "$word" "$REPLY"
  [[ $word == good ]]
}

keep() { # DIRECTORY BYTES
  local word arguments
  _directory=$1
  trap 'exit 0' TERM INT HUP
  trap 'end_beats; remove_staged' EXIT
  trap '' PIPE # the caller may end first
  beat &
  _beats=$!
  answer make_directory "$2" || return
  while IFS=' ' read -r word arguments; do
    case $word in
      copy) answer copy_file "$arguments" ;;
      sum) answer read_sum ;;
      place) answer place_file "$arguments" ;;
      unpack) answer unpack_file "$arguments" ;;
      keep) wait_for_end ;;
    esac
  done
}

# Say every few seconds that this node is alive, as long as the keeper is.
beat() {
  local never
  exec {never}<> <(:)
  until read -r -t 5 -u "$never"; do
    kill -0 $$ 2>/dev/null || exit
    printf '%s alive\n' "${_node_name:-$HOSTNAME}"
  done
}

end_beats() { kill "$_beats" 2>/dev/null; }

remove_staged() { [[ ! $_made ]] || rm -rf -- "$_directory"; }

make_directory() { # BYTES -> REPLY: error message
  local place=${_directory%/*} free
  [[ -d $place && -w $place ]] || { REPLY="$place is not a directory that you may write to"; return 1; }
  free=$(df -P -k -- "$place" | awk 'NR == 2 { print $4 }')
  ((${free:-0} * 1024 > $1)) || { REPLY="$place has ${free:-no} KiB free, but $(($1 / 1024)) are needed"; return 1; }
  [[ $(stat -f -c %T -- "$place") != @(tmpfs|ramfs) ]] || enough_memory "$1" || return 1
  REPLY=$(mkdir -m 700 -- "$_directory" 2>&1) || return 1
  _made=1
}

# In a memory file system, staged files count as memory of the job.
enough_memory() { # BYTES -> REPLY
  local available
  available=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
  ((${available:-0} * 1024 > $1)) && return
  REPLY="the node has ${available:-no} KiB of memory available, but $(($1 / 1024)) are needed"
  return 1
}

place_file() { # NAME -> REPLY: error message
  REPLY="cannot rename the copy"
  chmod a-w,a+r -- "$_directory/.part" && mv -- "$_directory/.part" "$_directory/$1" && REPLY=
}

copy_file() { # FILE -> REPLY: error message
  REPLY="cannot copy $1"
  rm -f -- "$_directory/.part" && cp -- "$1" "$_directory/.part" && REPLY=
}

read_sum() { # -> REPLY: sha256 of the copy
  REPLY=$(sha256sum <"$_directory/.part") && REPLY=${REPLY%% *}
}

unpack_file() { # FILE -> REPLY: the number of entries, or an error message
  REPLY=$(set -o pipefail && tar -C "$_directory" -xvf "$1" 2>"$_directory/.errors" | wc -l) ||
    { REPLY="tar failed: $(head -n 1 "$_directory/.errors")"; return 1; }
  rm -f -- "$_directory/.errors"
}

wait_for_end() {
  local never
  end_beats
  exec {never}<> <(:) </dev/null
  while :; do read -r -u "$never"; done
}
