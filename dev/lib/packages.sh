# Debian packages: find those missing for a part of the stack, and install them (root only).
# shellcheck shell=bash disable=SC2154  # see paths.sh

# ca-certificates must never be in this list: its trigger rebuilds the bundle and drops a CA that was added manually.
# Each line: part, package, and a program or file that shows that it is installed.
needs='
venv      python3-venv    /usr/lib/python3*/ensurepip
apptainer squashfs-tools  mksquashfs
apptainer squashfs-tools-ng sqfs2tar
apptainer squashfuse      squashfuse
apptainer fuse3           fusermount3
apptainer uidmap          newuidmap
apptainer libseccomp2     /usr/lib/*/libseccomp.so.2
apptainer libsqlite3-0    /usr/lib/*/libsqlite3.so.0
modules   lmod            /usr/share/lmod/lmod/init/bash
modules   tcl             tclsh
modules   zsh             zsh
modules   tcsh            tcsh
modules   fish            fish
cluster   slurmctld       slurmctld
cluster   slurmd          slurmd
cluster   slurm-client    srun
cluster   munge           munged
cluster   iproute2        ip
cluster   procps          ps
faults    strace          strace
cluster   uidmap          newuidmap
mpi       openmpi-bin     mpirun
mpi       libpmix-dev     /usr/lib/*/pmix2/lib/libpmix.so
fabric    libfabric-bin   fi_info
fabric    busybox         busybox
fabric    gcc             gcc
fabric    libc6-dev       /usr/include/stdio.h
registry  docker-registry docker-registry
registry  openssl         openssl
registry  skopeo          skopeo
browser   chromium        chromium
browser   chromium-driver chromedriver
browser   fonts-dejavu-core /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
browser   tidy            tidy
browser   ruby            ruby
build     buildah         buildah
build     fakeroot        fakeroot
build     mmdebstrap      mmdebstrap
build     uidmap          newuidmap
upgrade   git             git
matrix    git             git
matrix    gcc             gcc
matrix    libc6-dev       /usr/include/stdio.h
matrix    liblua5.3-dev   /usr/include/lua5.3/lua.h
matrix    make            make
matrix    pkg-config      pkg-config
matrix    tcl-dev         /usr/include/tcl*/tcl.h
matrix    mmdebstrap      mmdebstrap
'

is_there() { # is_there PROGRAM|FILE-PATTERN
    if [[ $1 == /* ]]; then compgen -G "$1" >/dev/null; else type -P "$1" >/dev/null; fi
}

# missing_packages PART...: print the packages that those parts still need, one per line.
missing_packages() {
    local part package sign
    while read -r part package sign; do
        [[ -n $part && " $* " == *" $part "* ]] || continue
        is_there "$sign" || printf '%s\n' "$package"
    done <<<"$needs" | sort -u
}

require_packages() {
    local -a missing
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]} == 0)) || die "missing on this machine: ${missing[*]}" \
        "run dev/stack once with sudo, or: apt-get install ${missing[*]}"
}

# install_packages PART...: root only.
install_packages() {
    local -a missing
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    type -P apt-get >/dev/null || die "missing on this machine: ${missing[*]}" "install them with this system's package tool"
    talk "stack: apt-get install ${missing[*]}"
    apt-get update -qq
    without_daemons apt_install "${missing[@]}"
}

# --no-remove: lmod and environment-modules exclude each other; never remove the one that is installed.
apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove "$@" </dev/null >/dev/null
}

# without_daemons COMMAND...: Debian would start slurmd, munge and the registry; the tests run their own.
without_daemons() {
    local policy=/usr/sbin/policy-rc.d status=0
    if [[ -e $policy ]]; then "$@"; return; fi
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    "$@" || status=$?
    rm -f "$policy"
    return "$status"
}
