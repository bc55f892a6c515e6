#!/bin/bash
# PMIx, through which the ranks of Open MPI find each other under Slurm.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source pmix
configure_make --disable-munge --disable-psec-dummy-handshake
# Containers of the same step share neither sockets in /tmp nor shared memory with other ranks.
mkdir -p "$prefix/etc"
printf "%s\n" "psec = ^munge" "gds = hash" "ptl = ^usock" >"$prefix/etc/pmix-mca-params.conf"
