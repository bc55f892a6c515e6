# For wrapper: pip install and uninstall.

find_own_packages
_new=${*: -1}
_new="${_module%%/*} ${_new/#-*/PACKAGE}"
if [[ $1 == uninstall ]]; then
  [[ ! $REPLY ]] || stop 2 "to remove what \`hpcmod add\` added: hpcmod drop $_new"
elif [[ $REPLY || ${_binds[-1]} || ! -w $_here/user-software/venv ]]; then # the last: user-software, ro if published
  # ~/.local is in no lock file or history; colleagues lack it.
  _why='packages go below ~/.local, for all containers'
  [[ " ${_guard[*]} " != *' PYTHONNOUSERSITE '* || ${HPCMOD_KEEP_ENV-} == *PYTHONNOUSERSITE* ]] ||
    _why='this container cannot be changed'
  say "$_why; to add to this one: hpcmod add $_new"
fi
