# For wrapper: pip install and uninstall.

find_own_packages
_new=${*: -1}
_new="${_module%%/*} ${_new/#-*/PACKAGE}"
if [[ $1 == uninstall && $REPLY ]]; then
  _set=$(readlink -f "$REPLY") && _set=$(<"${_set%.*}.json")
  for _name; do
    _name=${_name,,}
    [[ $_set != *"\"name\": \"${_name//[._]/-}\","* ]] || stop 2 "to remove what \`hpcmod add\` added: hpcmod drop $_new"
  done
fi
if [[ $REPLY || ${_binds[*]: -1} || ! -w $_here/user-software/venv ]]; then # the last: user-software, ro if published
  _why='packages go below ~/.local, for all containers' # in no lock file or history; colleagues lack it
  [[ " ${_guard[*]} " != *' PYTHONNOUSERSITE '* || ${HPCMOD_KEEP_ENV-} == *PYTHONNOUSERSITE* ]] ||
    _why='this container cannot be changed'
  if [[ $1 == install ]]; then
    say "$_why; to add to this one: hpcmod add $_new"
  elif [[ $_why == p* ]]; then # the venv's pip leaves ~/.local alone
    _words=(python -I -c 'import os,pip,sys;p=sys._base_executable;os.execv(p,[p,*pip.__path__,*sys.argv[1:]])')
  fi
fi
