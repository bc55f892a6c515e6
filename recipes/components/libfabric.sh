#!/bin/bash
# libfabric. OFI=builtin: with the CXI provider, using the libcxi in the prefix. OFI=swap: only with providers for any
# network; a host's libfabric replaces it at run time. GPU: cuda, rocm or none.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source libfabric
options=(--disable-verbs --disable-efa --disable-psm2 --disable-psm3 --disable-opx --enable-shm)
while read -r option; do options+=("$option"); done < <(gpu_options --with-cuda --with-rocr)
if [[ ${GPU:-none} == cuda ]]; then options+=(--enable-cuda-dlopen --enable-gdrcopy-dlopen); fi
if [[ $OFI == builtin ]]; then
    options+=(--with-cassini-headers="$prefix/include" --with-cxi-uapi-headers="$prefix/include"
        --enable-cxi="$prefix" --enable-lnx)
fi
configure_make "${options[@]}"
