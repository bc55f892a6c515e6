# The binds of the module (_binds of settings.bash) that exist on this node, with those of the user and the user's packages.

_bound=() # our binds, after resolve_binds

# The module may have been loaded on a different type of node, and Apptainer does not start if a bind source is missing: set
# the bind variables again for this node.
resolve_binds() {
  local - LC_ALL=C untold='' name
  local -A taken=()
  local -a chosen users=() users_bind=() ours=() links=() missing=() lost=() unbindable=()
  set -f
  if ! { are_ours SINGULARITY_BINDPATH APPTAINER_BINDPATH && are_ours SINGULARITY_BIND APPTAINER_BIND; }; then
    source "$_here/libexec/users.bash"
    find_users_binds
  fi
  [[ ! ${SINGULARITY_BIND+set}${APPTAINER_BIND+set} ]] || set_pair SINGULARITY_BIND APPTAINER_BIND "${users_bind[@]}"
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

# Both variables are as the module has set them, and the user had set neither before.
are_ours() { # NAME NAME
  local written=_HPCMOD_${_sif_variable#SIF}_$1 before=_HPCMOD_USER_$1 before_2=_HPCMOD_USER_$2
  [[ ${!1-} == "${!written-}" && ${!2-} == "${!written-}" && ! ${!before+set}${!before_2+set} ]]
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

# -> REPLY: the file of your own packages that fits this image, chosen by HPCMOD_PACKAGES, or nothing
find_own_packages() {
  local choice=${HPCMOD_PACKAGES-} name state='' place=${HPCMOD_PACKAGES_DIR-} container=$_packages_container file
  REPLY=''
  [[ $choice != none ]] || return 0
  name=$choice
  [[ $choice != *@* || ! $choice =~ ^(.*)@([0-9]+)$ ]] || name=${BASH_REMATCH[1]} state=${BASH_REMATCH[2]}
  name=${name:-default}
  [[ $place == /* ]] || place=~/.local/share/hpcmod
  if [[ $name == /* ]]; then place=$name/$container; else place=$place/packages/$container/$name; fi
  file=$place/active-$_packages_tag.squashfs
  [[ ! $state ]] || file=$place/states/$state-$_packages_tag.squashfs
  [[ ! -f $file ]] || { REPLY=$file && return; } # nothing else: a FIFO would block the runtime
  [[ ! $choice && ! -e $place && ! -L $place ]] || { source "$_here/libexec/users.bash" && explain_no_packages; }
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
        pattern) source "$_here/libexec/patterns.bash" && newest "$4" ;;
        packages) find_own_packages ;;
      esac
      [[ ! $REPLY || ! -e $REPLY ]] || { found=1 && add_bind "$REPLY" "$5" "$6"; }
    fi
    shift 6
  done
  [[ $found || ! $wanted ]] || missing+=("$wanted")
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
  REPLY=$1
  [[ $1 != *[:,]* ]] || REPLY=${1//:/'\:'} REPLY=${REPLY//,/'\,'}
}

# Bind a link's target too, so that links below it resolve, unless that would hide files of the image.
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
