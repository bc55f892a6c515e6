#!/bin/bash
# Run a command as on a node with a fault: fault.sh FAULT[:ARGUMENT...] COMMAND [ARGUMENT...]
#   hidden:PATH             PATH is empty                   full:PATH:SIZE[:INODES]   PATH is an empty tmpfs of SIZE
#   filled:PATH:SIZE:LEFT   a tmpfs of SIZE with LEFT free  other:FILE:PATH           PATH is FILE
#   net:none|down|cable     own network: no interface, hsn0 is down, or hsn0 has no carrier
#   mask:CPUS               bound to these CPUs             ahead:SECONDS             Python's clock is SECONDS ahead
#   slow:nice|idle          gets hardly any CPU time        slow:stop[:OFF:ON]        is stopped most of the time
#   silent, stuck           does not answer, does not end
set -euo pipefail
IFS=: read -r kind one two three <<<"$1"
shift
in_mounts() { exec unshare --user --map-root-user --mount bash -c "set -e; $1; shift 3; exec \"\$@\"" . "$one" "${two-}" "${three-}" "${@:2}"; }
in_network() { exec unshare --user --map-root-user --net bash -c "set -e; $1; exec \"\$@\"" . "${@:2}"; }
burn() { # burn N: keep this process's core busy until it ends
    local i
    taskset -cp "$(($(nproc --all) - 1))" $$ >/dev/null
    for ((i = 0; i < $1; i++)); do
        bash -c 'while kill -0 $1 2>/dev/null; do for ((i = 0; i < 20000; i++)); do :; done; done' . $$ <&- >&- 2>&- &
    done
}
case $kind in
    hidden) in_mounts 'mount -t tmpfs tmpfs "$1"' "$@" ;;
    full) in_mounts 'mount -t tmpfs -o "size=$2${3:+,nr_inodes=$3}" tmpfs "$1"' "$@" ;;
    filled) in_mounts 'mount -t tmpfs -o "size=$2" tmpfs "$1"; truncate -s 0 "$1/left"; head -c $((${2%m} - ${3%m}))m /dev/zero >"$1/of-others"' "$@" ;;
    other) in_mounts 'mount --bind "$1" "$2"' "$@" ;;
    net)
        case $one in
            none) in_network ':' "$@" ;;
            down) in_network 'ip link add hsn0 type veth peer name far' "$@" ;;
            cable) in_network 'ip link add hsn0 type veth peer name far; ip link set hsn0 up' "$@" ;;
        esac ;;
    mask) exec taskset -c "$one" "$@" ;;
    ahead) # this Python reads no variables and no modules of ours, so its program begins with the change
        words=("$@")
        for i in "${!words[@]}"; do [[ ${words[i]} != -c ]] || words[i + 1]=$(<"$TOP/clock.py")$'\n'${words[i + 1]}; done
        AHEAD=$one exec "${words[@]}" ;;
    slow)
        case $one in
            nice) burn 8; exec nice -n 19 "$@" ;;
            idle) burn 4; exec chrt --idle 0 "$@" ;;
            stop) # like a cgroup CPU quota: the process may run for a fiftieth of the time
                group=$(ps -o pgid= $$)
                setsid bash -c 'while kill -STOP -- -$1; do sleep $2; kill -CONT -- -$1; sleep $3; done' . \
                    "${group// /}" "${two:-0.196}" "${three:-0.004}" <&- >&- 2>&- &
                exec "$@" ;;
        esac ;;
    silent) exit 0 ;;
    stuck) exec -a "stuck in $TOP" sleep 100 ;;
esac
