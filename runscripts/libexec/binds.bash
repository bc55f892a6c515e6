# The binds of the module that exist on this node, with those of the user and the user's packages. Needs settings.bash, whose
# _binds has six words for each bind: starts a group, required, source is a pattern, source, destination, options. A group
# yields at most one bind, the first that exists. Sourced by wrapper and in-environment, outside the container only.

_bound=() # our binds, after resolve_binds

# The module may have been loaded on a different type of node, and Apptainer does not start if a bind source is missing: set
# the bind variables again for this node.
resolve_binds() {
  local - LC_ALL=C kernel='' untold='' name
  local -A taken=() known=()
  local -a kept chosen patterns=() users=() ours=() links=() missing=() lost=() unbindable=()
  set -f
  [[ ! -r /proc/sys/kernel/osrelease ]] || read -r kernel </proc/sys/kernel/osrelease
  read_known_binds
  [[ ! ${SINGULARITY_BIND+set}${APPTAINER_BIND+set} ]] || {
    keep_users SINGULARITY_BIND APPTAINER_BIND
    set_pair SINGULARITY_BIND APPTAINER_BIND "${kept[@]}"
  }
  keep_users SINGULARITY_BINDPATH APPTAINER_BINDPATH
  users=("${kept[@]}")
  choose_binds
  chosen=("${ours[@]}") ours=()
  follow_links # these first, so that they do not hide other binds inside them
  ours+=("${chosen[@]}")
  _bound=("${ours[@]}")
  [[ ! ${SINGULARITY_BINDPATH+set}${APPTAINER_BINDPATH+set}${ours[*]} ]] ||
    set_pair SINGULARITY_BINDPATH APPTAINER_BINDPATH "${ours[@]}" "${users[@]}"
  for name in "${missing[@]}"; do is_known "$name" || untold+=", $name"; done
  [[ ! $untold ]] || warn "not bound, missing on ${_node_name:-this node}: ${untold#, }"
  for name in "${lost[@]}"; do warn "bound by you, but missing on ${_node_name:-this node}: $name"; done
  for name in "${unbindable[@]}"; do warn "not bound, unsupported characters in the path: ${name//[[:cntrl:]]/?}"; done
}

# Only one task per node prints warnings.
warn() { # MESSAGE
  [[ $_node_index == [1-9]* ]] || say "$1"
}

# Outside a job, this is most often the node where loading the module printed the warning.
is_known() { # SOURCE
  local variable=_HPCMOD_${_sif_variable#SIF}_MISSING
  [[ ! $_job && ,${!variable-}, == *",$1,"* ]]
}

# NAMES -> kept: elements of the lists other than ours, each destination once, only if the source exists.
keep_users() {
  local name element source place elements
  kept=()
  for name in "$@"; do
    [[ $name == "$1" || ${!name-} != "${!1-}" ]] || continue # the same list, as usual
    split_binds "${!name-}"
    for element in "${elements[@]}"; do
      read_element "$element"
      if [[ ! $place || ${taken[$place]-} ]] || is_ours_too; then continue; fi
      taken[$place]=1
      if [[ -e $source ]]; then kept+=("$element"); else lost+=("$source"); fi
    done
  done
}

# LIST -> elements; the options of a bind are separated by commas too
split_binds() {
  local element IFS=,
  elements=()
  for element in ${1//'\,'/$'\1'}; do
    element=${element//$'\1'/'\,'}
    if [[ $element =~ ^(ro|rw)$|^(image-src|id)= && ${elements[*]} ]]; then
      elements[${#elements[@]} - 1]+=,$element
    else
      elements+=("$element")
    fi
  done
}

# -> REPLY: the file of your own packages that fits this image, chosen by HPCMOD_PACKAGES, or nothing
find_own_packages() {
  local choice=${HPCMOD_PACKAGES-} name state='' place=${HPCMOD_PACKAGES_DIR-} container=$_packages_container problem='' file
  REPLY=''
  [[ $choice != none ]] || return 0
  name=$choice
  [[ ! $choice =~ ^(.*)@([0-9]+)$ ]] || name=${BASH_REMATCH[1]} state=${BASH_REMATCH[2]}
  name=${name:-default}
  [[ $place == /* ]] || place=${HOME-}/.local/share/hpcmod
  if [[ $name == /* ]]; then place=$name/$container; else place=$place/packages/$container/$name; fi
  file=$place/active-$_packages_tag.squashfs
  [[ ! $state ]] || file=$place/states/$state-$_packages_tag.squashfs
  [[ ! -f $file ]] || { REPLY=$file && return; } # nothing else: a FIFO would block the runtime
  if [[ -e $file || -L $file ]]; then
    problem="the file of your packages \`$name\` is missing: $file; use other ones: hpcmod packages $container --history"
  elif [[ $choice && ! -d $place/states ]] && ! { [[ $name == /* ]] && has "$name" '*/states'; }; then
    problem="you have no set of packages \`$name\`; see: hpcmod packages $container"
  elif [[ $state ]]; then
    problem="your packages \`$name\` have no state $state that fits this image; see: hpcmod packages $container --history"
  fi
  [[ ! $problem ]] || stop 3 "HPCMOD_PACKAGES=${choice:-default}: $problem; to run without your packages: HPCMOD_PACKAGES=none"
  # loading the module has already printed this
  [[ ${_HPCMOD_CONTAINER-} != *" $_module" ]] && has "$place" 'active-*' || return 0
  warn "your packages \`$name\` were made for another image, so they are off; to make them fit: hpcmod rebase $container"
}

has() { # DIRECTORY PATTERN
  local - path
  set +f
  for path in "$1"/$2; do
    [[ ! -e $path && ! -L $path ]] || return 0
  done
  return 1
}

read_element() { # ELEMENT -> source and place
  local hidden=${1//'\:'/$'\1'}
  source=${hidden%%:*} place=
  [[ $hidden != *:* ]] || place=${hidden#*:}
  place=${place%%:*}
  place=${place:-$source}
  source=${source//$'\1'/:} place=${place//$'\1'/:}
  source=${source//'\,'/,} place=${place//'\,'/,}
  while [[ $place == ?*/ ]]; do place=${place%/}; done
}

# The binds of the module, in any form. -> known: the literal ones, by source and destination; patterns: the others
read_known_binds() {
  set -- "${_binds[@]}"
  while (($#)); do
    case $3 in
      path) known[$4:${5:-$4}]=1 ;;
      pattern) patterns+=("${4//\{uname_r\}/$kernel}" "$5") ;;
    esac
    shift 6
  done
}

is_ours_too() {
  [[ ! $_packages_tag || $place != "$_packages_mount" || $source != *"-$_packages_tag.squashfs" ]] || return 0
  [[ ! ${known[$source:$place]-} ]] || return 0
  set -- "${patterns[@]}"
  while (($#)); do
    # shellcheck disable=SC2053 # it is a pattern on purpose
    [[ $source != $1 || $place != "${2:-$source}" ]] || return 0
    shift 2
  done
  return 1
}

choose_binds() {
  local found=1 wanted=''
  set -- "${_binds[@]}"
  while (($#)); do
    if [[ $1 == group ]]; then
      [[ $found || ! $wanted ]] || missing+=("$wanted")
      found='' wanted=''
      [[ $2 != required ]] || wanted=$4
    fi
    if [[ ! $found ]]; then
      REPLY=$4
      case $3 in
        pattern) newest "${4//\{uname_r\}/$kernel}" ;;
        packages) find_own_packages ;;
      esac
      [[ ! $REPLY || ! -e $REPLY ]] || { found=1 && add_bind "$REPLY" "$5" "$6"; }
    fi
    shift 6
  done
  [[ $found || ! $wanted ]] || missing+=("$wanted")
}

# PATTERN -> REPLY: the newest path that matches, 1.10 before 1.9, and numbers before words. Captured libraries have a link
# to their original: those with an original on this node come first, so nodes that are not updated yet keep theirs.
newest() {
  local - IFS='' path key rest number best=
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

add_bind() { # SOURCE DESTINATION OPTIONS
  local place=${2:-$1} text
  if [[ $1 == *[[:cntrl:]]* || $1: == *'\'[:,]* ]]; then
    unbindable+=("$1")
    return
  fi
  [[ ! ${taken[$place]-} ]] || return 0
  taken[$place]=1
  escape "$1"
  text=$REPLY
  escape "$place"
  [[ ! $2$3 ]] || text+=:$REPLY
  ours+=("$text${3:+:$3}")
  [[ $2 || ! -d $1 ]] || links+=("$1")
}

escape() { # PATH -> REPLY
  REPLY=${1//:/'\:'}
  REPLY=${REPLY//,/'\,'}
}

# Bind the target of a symbolic link too, so that links below it resolve, unless that would hide the image's own files.
follow_links() {
  local source place parent
  for source in "${links[@]}"; do
    holds_link "$source" || continue
    place=$(CDPATH='' cd -P -- "$source" 2>/dev/null && printf %s. "$PWD") || continue
    place=${place%.} parent=${place%.}
    case $place/ in /usr/* | /bin/* | /sbin/* | /lib/* | /lib64/* | /etc/* | /dev/* | /proc/* | /sys/* | //) continue ;; esac
    while [[ $parent && ! ${taken[$parent]-} ]]; do parent=${parent%/*}; done
    [[ $parent ]] || add_bind "$place" '' ''
  done
}

holds_link() { # PATH
  local path=$1
  while [[ $path ]]; do
    [[ ! -L $path ]] || return 0
    path=${path%/*}
  done
  return 1
}

set_pair() { # NAME NAME ELEMENTS
  local IFS=,
  export "$1=${*:3}" "$2=${*:3}"
}
