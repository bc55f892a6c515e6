#!/usr/bin/env bash
# cluster_start.sh DIR NODES CPUS GPUS SOCKETS SECONDS: start the cluster's namespaces, and wait until every node is idle.
# Run as root of a user namespace; dev/cluster does that.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$1 life=$6

mkdir -p "$dir"/{etc,state,spool,run,log,dev,local,nodes}
# fd 9 is a caller's lock: a daemon that inherited it would hold it forever
setsid unshare --pid --fork --kill-child --mount --mount-proc --net --uts --ipc \
    timeout --signal=KILL "$life" bash "$here/cluster_nodes.sh" "${@:1:5}" </dev/null >"$dir/log/init" 2>&1 9>&- &
pid=$!
printf '%s\n' "$pid" >"$dir/pid"
for ((i = 0; i < 600; i++)); do
    [[ ! -e $dir/ready ]] || exit 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
done
kill -9 "$pid" 2>/dev/null || true
exit 1
