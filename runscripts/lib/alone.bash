# Without a known launcher, this is the only rank, unless something suggests that there are more.
refuse_signs_of_others() {
  find_signs_of_others
  [[ ! $REPLY ]] || refuse "$REPLY, but this rank's number is unknown. Start it with mpiexec or torchrun, or set RANK, \
LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; if it is the only rank, set WORLD_SIZE=1"
}

# -> REPLY: evidence of other ranks, or empty
find_signs_of_others() {
  local IFS=$' \t\n' host
  local -A hosts=()
  REPLY=
  if is_number "${PMI_SIZE-}" && ((10#$PMI_SIZE > 1)); then
    REPLY="PMI_SIZE is $PMI_SIZE"
  elif [[ ${PMIX_RANK-} ]]; then
    REPLY="PMIX_RANK is $PMIX_RANK"
  elif is_number "${NHOSTS-}" && [[ ${PE_HOSTFILE-} ]] && ((10#$NHOSTS > 1)); then
    REPLY="this Grid Engine job has $NHOSTS hosts"
  elif [[ ${PBS_NODEFILE-} && -r $PBS_NODEFILE ]]; then
    while read -r host; do hosts[${host:-none}]=1; done <"$PBS_NODEFILE"
    ((${#hosts[@]} < 2)) || REPLY="this PBS job has ${#hosts[@]} hosts"
  elif [[ ${PBS_NODEFILE-} ]]; then
    say "cannot read $PBS_NODEFILE: bind it to make the hosts of the job known. Running as the only rank"
  elif [[ ${LSB_MCPU_HOSTS-} ]]; then
    for host in $LSB_MCPU_HOSTS; do
      is_number "$host" || hosts[$host]=1
    done
    ((${#hosts[@]} < 2)) || REPLY="this LSF job has ${#hosts[@]} hosts"
  fi
}
