# LIST -> _hosts: all its hosts, in order. Status 1: not a host list, or more than 100,000 hosts.
all_hosts() {
  local IFS='[]' list=$1 i text
  local -a parts begun=('')
  _hosts=()
  first_host "$list" || return 1
  list=${list//[[:blank:]]/}
  # shellcheck disable=SC2206 # splitting is intended, as in first_host
  parts=($list)
  for ((i = 0; i < ${#parts[@]}; i += 2)); do
    text=${parts[i]},
    while [[ $text ]]; do
      begun=("${begun[@]/%/${text%%,*}}")
      text=${text#*,}
      [[ ! $text ]] || end_hosts || return 1
    done
    ((i + 1 >= ${#parts[@]})) || expand_ranges "${parts[i + 1]}" || return 1
  done
  end_hosts
}

# Status 1: more than 100,000 hosts.
end_hosts() {
  [[ ! ${begun[0]} ]] || _hosts+=("${begun[@]}")
  begun=('')
  ((${#_hosts[@]} <= 100000))
}

# Append each number of the ranges to each partial host name. Status 1: more than 100,000 hosts.
expand_ranges() { # RANGES
  local IFS=, range low high number name
  local -a numbers=() longer=()
  for range in $1; do
    low=${range%-*} high=${range#*-}
    # checked here as well: first_host does not look at each range of a long list
    ((${#low} < 19 && ${#high} < 19 && 10#$high - 10#$low + ${#numbers[@]} < 100000)) || return 1
    for ((number = 10#$low; number <= 10#$high; number++)); do
      printf -v "numbers[${#numbers[@]}]" %0*d "${#low}" "$number"
    done
  done
  ((${#numbers[@]} * ${#begun[@]} <= 100000)) || return 1
  for name in "${begun[@]}"; do
    longer+=("${numbers[@]/#/$name}")
  done
  begun=("${longer[@]}")
}
