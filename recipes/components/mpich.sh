#!/bin/bash
# MPICH on the libfabric in the prefix, with the ABI of libmpi.so.12, which a host's Cray MPICH has, too.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source mpich
options=(--with-device=ch4:ofi --with-libfabric="$prefix" --disable-fortran --enable-shared)
while read -r option; do options+=("$option"); done < <(gpu_options --with-cuda --with-hip)
configure_make "${options[@]}"
ln -sfn "$prefix" /container/mpich
