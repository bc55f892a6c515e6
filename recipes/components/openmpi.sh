#!/bin/bash
# Open MPI on the libfabric in the prefix, started by Slurm through PMIx. OFI=none: without libfabric.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source openmpi
options=(--enable-prte-prefix-by-default --enable-shared --with-cma --with-pic --with-pmix="$prefix" --disable-sphinx)
if [[ $OFI == none ]]; then
    options+=(--without-libfabric)
else
    options+=(--with-libfabric="$prefix" --without-ucx)
fi
while read -r option; do options+=("$option"); done < <(gpu_options --with-cuda --with-rocm)
if [[ ${GPU:-none} == cuda ]]; then options+=(--with-cuda-libdir="${CUDA_HOME:-/usr/local/cuda}/lib64/stubs"); fi
configure_make "${options[@]}"
# NGC's images set OPAL_PREFIX to their own Open MPI: ours would look there for its plugins, and mpicc for libraries.
[[ -z ${OPAL_PREFIX:-} ]] || take_place_of "$OPAL_PREFIX"
ln -sfn "$prefix" /container/ompi # its path in HPE's first images, MPI_HOME in many scripts
