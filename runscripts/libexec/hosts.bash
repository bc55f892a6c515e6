# For outside.bash: variables of the host's Python, programs that mean its commands.

# HPCMOD_KEEP_ENV lists variables to pass on; what the user set for the container wins.
guard_variable() { # NAME VALUE WHEN MEMORY
  local one=SINGULARITYENV_$1 other=APPTAINERENV_$1
  if [[ " ${HPCMOD_KEEP_ENV-} " == *" $1 "* ]]; then
    [[ ${!one-unset} != "$2" ]] || unset "$one"
    [[ ${!other-unset} != "$2" ]] || unset "$other"
  elif [[ $3 == always && $2${!1-} || $3 != always && ${!4-} ]]; then
    [[ ${!one+set}${!other+set} ]] || export "$one=$2" "$other=$2"
    [[ $3 != before ]] || pass_added "${!1-}" "${!4}"
  fi
}

# What the user has added to a list since the module was loaded.
pass_added() { # NOW BEFORE
  local - IFS=: entry added=()
  set -f
  for entry in $1; do
    [[ :$2: == *":$entry:"* ]] || added+=("$entry")
  done
  [[ ! ${added[*]} || ${!one-}${!other-} ]] || export "$one=${added[*]}" "$other=${added[*]}"
}

# A script beside the host's command, as in /usr/bin or a virtual environment; or a site's tool, in its own directory.
is_host_program() { # PATH
  local file=$1 start=
  [[ $file == /* ]] || file=/proc/$PPID/cwd/$file
  [[ -f $file && -x $file ]] || return 1
  IFS= read -r -d '' -n 2 start 2>/dev/null <"$file"
  [[ $start == '#!' ]] && ! is_wrapper "$file" || return 1
  case ${file##*/} in
    eb | hpcmod | reframe | spack) return 0 ;;
  esac
  [[ -x ${file%/*}/$_me ]] && ! is_wrapper "${file%/*}/$_me"
}

# Programs in Python, such as Snakemake, restart themselves by the path of their interpreter: `python` is a command of users.
runs_commands_of_users() { # PATH
  local file=$1 start=
  [[ $file == /* ]] || file=/proc/$PPID/cwd/$file
  [[ ! ${file##*/} =~ ^(eb|hpcmod|reframe|spack)$ ]] && IFS= read -r start 2>/dev/null <"$file"
  [[ $start == '#!'*python* ]]
}
