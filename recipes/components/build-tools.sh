#!/bin/bash
# The build dependencies of the other components, from the distribution's packages.
# OFI=builtin: also the libraries that the CXI provider links to.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

tools_of() {
    if type -P apt-get >/dev/null; then
        echo autoconf automake libtool make patch gcc g++ pkg-config curl ca-certificates bzip2 xz-utils python3 \
            libhwloc-dev libevent-dev libnuma-dev libnl-3-dev libnl-genl-3-dev zlib1g-dev
        [[ $OFI != builtin ]] ||
            echo libcurl4-openssl-dev libjson-c-dev libconfig-dev libuv1-dev libyaml-dev libfuse-dev libsensors-dev
    elif type -P zypper >/dev/null; then
        echo autoconf automake libtool make patch gcc gcc-c++ pkg-config curl ca-certificates bzip2 xz tar python3 \
            hwloc-devel libevent-devel libnuma-devel libnl3-devel zlib-devel
        [[ $OFI != builtin ]] ||
            echo libcurl-devel libjson-c-devel libconfig-devel libuv-devel libyaml-devel fuse-devel libsensors4-devel
    else
        echo autoconf automake libtool make patch gcc gcc-c++ pkgconf curl ca-certificates bzip2 xz tar python3 \
            hwloc-devel libevent-devel numactl-devel libnl3-devel zlib-devel
        [[ $OFI != builtin ]] ||
            echo libcurl-devel json-c-devel libconfig-devel libuv-devel libyaml-devel fuse-devel lm_sensors-devel
    fi
}

read -r -a packages <<<"$(tools_of | tr '\n' ' ')"
install_packages "${packages[@]}"
mkdir -p "$prefix/lib"
[[ -e $prefix/lib64 ]] || ln -s lib "$prefix/lib64"
