# `ray symmetric-run` starts a cluster over the nodes of a step and runs the program on the first. The rest is here: CPUs and
# GPUs of the task, free ports, a token, a directory for each node, signals, and the program's status.
launch_by_ray() { # NODES -> _launch
  local count='' options=() IFS=' ,'
  if read_open_cpus; then
    count_cores "$REPLY"
    count=$REPLY
  fi
  ! is_number "$_task_cpus" || { [[ $count ]] && ((10#$_task_cpus > count)); } || count=$((10#$_task_cpus))
  [[ ! $count ]] || options+=("--num-cpus=$count")
  # Not the profile's number: Ray looks for GPUs itself if neither variables nor the scheduler say how many there are.
  if ((_devices)); then
    options+=("--num-gpus=$_devices")
  elif is_number "$_gpus_here"; then
    options+=("--num-gpus=$((10#$_gpus_here))")
  fi
  IFS=$' \t\n'
  # shellcheck disable=SC2206 # splitting is intended
  options+=(${HPCMOD_RAY_START-})
  number_of "${_told[RUN]:-$PPID}"
  ! is_number "${_told[RUN]-}" || REPLY=${_told[RUN]}
  _ray_node=$NODE_RANK _ray_head=$MASTER_ADDR:$MASTER_PORT _ray_directory=ray-$UID-$REPLY-${_step:-0}-$_job_restarts
  _ray=(-c "$_ray_start" symmetric-run --address "$_ray_head" --min-nodes "$1" "${options[@]}")
  [[ ${_asked[no-python]} ]] || _ray_python=(python)
  _launch=("${_ray[@]}" -- "${_ray_python[@]}")
  mirror_for_ray
  offer RAY_USAGE_STATS_ENABLED 0 'no reports to the Internet'
  offer RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT "${HPCMOD_RAY_WAIT:-300}" 'seconds in which all nodes must have joined'
  offer RAY_gcs_rpc_server_reconnect_timeout_s 10 'seconds after which a node ends without the first one'
  put RAY_ADDRESS "$_ray_head" 'the cluster of this step'
  unset_all RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT HPCMOD_LOCAL_RANK HPCMOD_LAUNCHER \
    HPCMOD_NO_PYTHON HPCMOD_SAVE_CACHES HPCMOD_RESTORE_CACHES
}

# Ray refuses ROCR_VISIBLE_DEVICES without HIP_VISIBLE_DEVICES, which counts from 0 among the GPUs that the former leaves.
mirror_for_ray() {
  local devices IFS=,
  [[ ${ROCR_VISIBLE_DEVICES-} && ! ${HIP_VISIBLE_DEVICES-} ]] || return 0
  # shellcheck disable=SC2206 # splitting is intended
  devices=($ROCR_VISIBLE_DEVICES)
  put HIP_VISIBLE_DEVICES "${!devices[*]}" 'Ray refuses ROCR_VISIBLE_DEVICES alone'
  [[ ! ${CUDA_VISIBLE_DEVICES-} ]] || put CUDA_VISIBLE_DEVICES "$HIP_VISIBLE_DEVICES" 'what ROCR_VISIBLE_DEVICES leaves'
}

# As `python -m ray.scripts.scripts`, which would import from the working directory first.
_ray_start='import sys; sys.path[:] = filter(None, sys.path)
import runpy; runpy.run_module("ray.scripts.scripts", run_name="__main__", alter_sys=True)'
# Ray's release, this node's address in the network of the first one, and the options for ports that Ray would otherwise give
# the same number on each node, or for each user.
_ray_facts='
import sys; sys.path[:] = filter(None, sys.path)
import random, socket
from importlib import metadata, util
head, node = sys.argv[1].rpartition(":")[0], sys.argv[2]
family, kind, _, _, place = socket.getaddrinfo(head, 9, type=socket.SOCK_DGRAM)[0]
with socket.socket(family, kind) as probe:
    probe.connect(place)
    print(*metadata.version("ray").split(".")[:2], probe.getsockname()[0])
names = ["dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export", "runtime-env-agent"]
names += ["dashboard"] * (node == "0") + ["ray-client-server"] * (node == "0" and util.find_spec("grpc") is not None)
ports = random.SystemRandom().sample(range(10240, 32750), 200)
free = (port for port in ports if socket.socket().connect_ex(("127.0.0.1", port)))
print("--node-manager-port=0 --object-manager-port=0 --min-worker-port=0 --max-worker-port=0", end=" ")
print(*("--%s-port=%d" % (name, next(free)) for name in names))'

# The program gets the signals that Ray ignores, and its process ID is known.
_ray_program='
import sys; sys.path[:] = filter(None, sys.path)
import os, signal
for number in signal.SIGUSR1, signal.SIGUSR2:
    signal.signal(number, signal.SIG_DFL)
with open(sys.argv[1], "w") as file:
    print(os.getpid(), file=file)
os.execvp(sys.argv[2], sys.argv[2:])'

run_on_ray() { # ARGS
  local major minor address ports signal child status=0 directory=${HPCMOD_CACHE_ROOT:-$_cache_root}
  activate_python
  hash -r
  hash ray 2>/dev/null || stop 7 "this image has no Ray: no program ray on PATH. Add it: hpcmod add $_module ray"
  { read -r major minor address && read -r ports; } < <(python -c "$_ray_facts" "$_ray_head" "$_ray_node") ||
    stop 7 "cannot find out Ray's release, or the address of the first node, $_ray_head"
  # 2.50 and 2.51 have the command, but it passes its own name on to `ray start`, which refuses it.
  ((major > 2 || (major == 2 && minor >= 52))) ||
    stop 7 "this image has Ray $major.$minor, and \`ray symmetric-run\` works from 2.52 on. Add a newer one: hpcmod add $_module 'ray>=2.52'"
  [[ ${VLLM_HOST_IP-} ]] || export VLLM_HOST_IP=$address
  find_ray_token
  ((${#directory} + ${#_ray_directory} + 5 < 41)) || directory=/tmp # Ray needs 66 of the 107 bytes of a socket's path
  directory+=/$_ray_directory
  # Before 2.55, all nodes use the path of the first one.
  ((major == 2 && minor < 55)) || directory+=-$_ray_node
  mkdir -m 700 -- "$directory" || stop 7 "cannot create $directory. Set HPCMOD_CACHE_ROOT to a directory that nodes do not share"
  # shellcheck disable=SC2086,SC2016 # the ports are options; that bash expands the rest
  (
    trap - INT QUIT
    trap '' USR1 USR2
    exec python "${_ray[@]}" "--temp-dir=$directory" $ports -- /bin/bash -c '"$@"; echo $? >"$0/status"' "$directory" \
      python -c "$_ray_program" "$directory/program" "${_ray_python[@]}" "$@"
  ) <&0 &
  child=$!
  for signal in TERM INT HUP QUIT USR1 USR2; do
    trap '{ kill -s '"$signal"' "$(<"$directory/program")"; } 2>/dev/null' "$signal"
  done
  until wait "$child" || ! kill -0 "$child" 2>/dev/null; do :; done
  wait "$child" || status=$?
  ((status < 128)) || ray stop --force >/dev/null 2>&1
  if [[ $_ray_node == 0 ]]; then
    read -r status 2>/dev/null <"$directory/status" || { ((status)) || status=1; }
  fi
  rm -rf -- "$directory"
  exit "$status"
}

find_ray_token() {
  local path=${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}
  [[ ${RAY_AUTH_MODE:-token} == token && ! ${RAY_AUTH_TOKEN-} ]] || return 0
  # Of several nodes that do this at the same time, one succeeds.
  [[ -s $path ]] || (umask 077 && mkdir -p -- "${path%/*}" && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$path.$$.$_ray_node" &&
    ln -- "$path.$$.$_ray_node" "$path" && rm -f -- "$path.$$.$_ray_node") 2>/dev/null || rm -f -- "$path.$$.$_ray_node"
  export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$path
}
