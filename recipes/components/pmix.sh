#!/bin/bash
# PMIx, by which Slurm tells the ranks of Open MPI of each other.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source pmix
configure_make --disable-munge --disable-psec-dummy-handshake
# Containers of one step share neither sockets in /tmp nor the memory of the other ranks' tables.
mkdir -p "$prefix/etc"
printf "%s\n" "psec = ^munge" "gds = hash" "ptl = ^usock" >"$prefix/etc/pmix-mca-params.conf"
