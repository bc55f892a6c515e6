#!/usr/bin/env bash
# cluster_nodes.sh DIR NODES CPUS GPUS SOCKETS: run process 1 of a cluster: set up the network, start the daemons, and wait.
set -euo pipefail
dir=$1 nodes=$2 cpus=$3 gpus=$4 sockets=$5
net=10.77.0
stepd=() # slurmd knows where its helper is only as installed by Debian
if [[ -n ${HPCMOD_SLURM:-} ]]; then
    stepd=(-d "$HPCMOD_SLURM/programs/slurmstepd")
    # without systemd, slurmd from 23.11 on needs it; 20.11 does not know it
    [[ $(slurmd -V) == *' 20.'* ]] || printf 'CgroupPlugin=disabled\n' >"$dir/etc/cgroup.conf"
    for program in "$HPCMOD_SLURM"/programs/*; do # a job may have another PATH
        [[ ! -e /usr/bin/${program##*/} ]] || mount --bind "$(realpath "$program")" "/usr/bin/${program##*/}"
    done
fi
export SLURM_CONF=$dir/etc/slurm.conf

node_name() { printf 'nid%03d' "$1"; }
node_address() { printf '%s.%d' "$net" $((10 + $1)); }
node_range() { if ((nodes == 1)); then node_name 1; else printf 'nid[001-%03d]' "$nodes"; fi; }

start_network() {
    hostname login
    ip link set lo up
    ip link add br0 type bridge
    ip addr add "$net.1/24" dev br0
    ip link set br0 up
}

# Apptainer binds the caller's /etc/hosts, so the names work in containers, too.
name_hosts() {
    local i
    printf '127.0.0.1 localhost\n%s.1 login\n' "$net" >"$dir/etc/hosts"
    for ((i = 1; i <= nodes; i++)); do printf '%s %s\n' "$(node_address "$i")" "$(node_name "$i")"; done >>"$dir/etc/hosts"
    mount --bind "$dir/etc/hosts" /etc/hosts
}

# Slurm gives each task all groups of its user in the group database, and the kernel refuses groups that the user namespace
# does not map: "Slurmd could not set UID or GID". newgidmap lets an ordinary user map only the primary group, so the
# cluster's database contains no others. LDAP and similar services are disabled, because they would add them.
name_groups() {
    local gid
    gid=$(getent passwd "$(stat -c %u "$dir")" | cut -d: -f4)
    { getent group "$gid"; getent group; } | awk -F: '!seen[$1]++ { print $1 ":" $2 ":" $3 ":" }' >"$dir/etc/group"
    mount --bind "$dir/etc/group" /etc/group
    [[ -e /etc/nsswitch.conf ]] || return 0
    sed -E '/^(group|initgroups):/d; $a group: files' /etc/nsswitch.conf >"$dir/etc/nsswitch.conf"
    mount --bind "$dir/etc/nsswitch.conf" /etc/nsswitch.conf
}

# A killed job must not leave shared memory segments on the real machine.
own_shared_memory() { mount -t tmpfs -o mode=1777 tmpfs /dev/shm; }

start_munge() {
    dd if=/dev/urandom of="$dir/etc/munge.key" bs=128 count=1 status=none
    chmod 400 "$dir/etc/munge.key"
    # --force: munged refuses directories of other users
    munged --force --foreground --num-threads=10 --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.socket" \
        --pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged" --seed-file="$dir/run/munge.seed" &
    until [[ -S $dir/run/munge.socket ]]; do sleep 0.02; done
}

# HPCMOD_SLURM: the directory of another release of Slurm (dev/matrix), whose programs are on PATH.
# config_overrides: nodes may have more CPUs and memory than this machine, because job scripts of large machines request them.
write_slurm_conf() {
    ((sockets == 0)) || local socket_clause=" Sockets=$sockets CoresPerSocket=$((cpus / sockets))"
    cat >"$SLURM_CONF" <<END
ClusterName=virtual
SlurmctldHost=login($net.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits for the lifetime of a credential, 120 s by default.
AuthInfo=socket=$dir/run/munge.socket,cred_expire=15
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/%n.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=2
InactiveLimit=0
MailProg=/bin/true
${HPCMOD_SLURM:+PluginDir=$(echo "$HPCMOD_SLURM"/usr/lib/*/slurm-wlm)}
$(gpu_lines)
NodeName=$(node_range) CPUs=$cpus${socket_clause:-} RealMemory=512000 Feature=nvme${gpu_clause:-} State=UNKNOWN
PartitionName=small Nodes=$(node_range) Default=YES State=UP
PartitionName=standard Nodes=$(node_range) OverSubscribe=EXCLUSIVE State=UP
PartitionName=small-g Nodes=$(node_range) State=UP
PartitionName=standard-g Nodes=$(node_range) OverSubscribe=EXCLUSIVE State=UP
PartitionName=batch Nodes=$(node_range) OverSubscribe=EXCLUSIVE State=UP
END
}

# The nodes share /tmp, where each would create a directory of the same name for a step's PMIx.
write_mpi_conf() { printf 'PMIxCliTmpDirBase=%s\n' "$dir/local" >"$dir/etc/mpi.conf"; }

gpu_lines() { ((gpus == 0)) || printf 'GresTypes=gpu\n'; }

# Slurm sets a job's GPU variables only for device files.
make_gpus() {
    local i files=$dir/dev/gpu0
    : >"$dir/etc/gres.conf"
    ((gpus > 0)) || return 0
    for ((i = 0; i < gpus; i++)); do
        : >"$dir/dev/gpu$i"
        mount --bind /dev/null "$dir/dev/gpu$i"
    done
    ((gpus == 1)) || files="$dir/dev/gpu[0-$((gpus - 1))]"
    printf 'NodeName=%s Name=gpu File=%s\n' "$(node_range)" "$files" >"$dir/etc/gres.conf"
    gpu_clause=" Gres=gpu:$gpus"
}

is_apart() { # is_apart PID: check that a process has left our network, host name and mount namespaces
    local kind
    for kind in net uts mnt; do
        [[ $(readlink "/proc/$1/ns/$kind") != "$(readlink "/proc/self/ns/$kind")" ]] || return 1
    done
}

start_node() {
    local name holder
    name=$(node_name "$1")
    unshare --net --uts --mount sleep infinity &
    holder=$!
    until is_apart "$holder"; do sleep 0.01; done
    ip link add "port$1" type veth peer name hsn0 netns "$holder"
    ip link set "port$1" master br0 up
    # shellcheck disable=SC2016  # expanded by that sh
    nsenter --target "$holder" --net --uts sh -e -c \
        'hostname "$1"; ip link set lo up; ip addr add "$2/24" dev hsn0; ip link set hsn0 up' sh "$name" "$(node_address "$1")"
    mkdir -p "$dir/spool/$name" "$dir/nodes/$name"
    chmod 1777 "$dir/nodes/$name"
    # DIR/local is private to the node, like its disk or memory; from outside, it is DIR/nodes/NAME
    nsenter --target "$holder" --mount mount --bind "$dir/nodes/$name" "$dir/local"
    nsenter --target "$holder" --net --uts --mount slurmd -D -f "$SLURM_CONF" -N "$name" "${stepd[@]}" &
}

all_idle() { sinfo -h -N -p small -o %t 2>/dev/null | awk -v nodes="$nodes" '$1 == "idle" { n++ } END { exit n != nodes }'; }

start_network
name_hosts
name_groups
own_shared_memory
start_munge
make_gpus
write_slurm_conf
write_mpi_conf
slurmctld -D -f "$SLURM_CONF" &
for ((i = 1; i <= nodes; i++)); do start_node "$i"; done
until all_idle; do sleep 0.05; done
touch "$dir/ready"
wait
