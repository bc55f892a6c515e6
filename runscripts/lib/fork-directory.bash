# A private directory of this step on this node, with the program that forks ranks. Any rank may be the first to write it.
make_fork_directory() { # DIRECTORY
  [[ -d $1 ]] || mkdir -m 700 -- "$1" 2>/dev/null
  is_private "$1" || return 1
  [[ -e $1/sitecustomize.py ]] && return
  cat -- "$_lib/fork_ranks.py" >"$1/$$" && mv -f -- "$1/$$" "$1/sitecustomize.py"
}
