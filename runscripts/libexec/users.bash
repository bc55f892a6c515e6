# For binds.bash: the user's binds among those of the module, and packages that do not fit the image.

# -> users: of BINDPATH; users_bind: of BIND
find_users_binds() {
  local -A known=()
  local -a kept patterns=()
  read_known_binds
  if [[ ${SINGULARITY_BIND+set}${APPTAINER_BIND+set} ]]; then
    keep_users SINGULARITY_BIND APPTAINER_BIND
    users_bind=("${kept[@]}")
  fi
  keep_users SINGULARITY_BINDPATH APPTAINER_BINDPATH
  users=("${kept[@]}")
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
      taken["$place"]=1
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
      pattern) source "$_here/libexec/patterns.bash" && name_kernel "$4" && patterns+=("$REPLY" "$5") ;;
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

# Stop if the chosen ones are missing, with the variables of find_own_packages.
explain_no_packages() {
  local problem=''
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
