#!/bin/bash
# Open MPI over the libfabric in the prefix, started by Slurm through PMIx. OFI=none: over what the base has.
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
# NGC's images name their own Open MPI in OPAL_PREFIX: there ours would look for its parts, and its mpicc for libraries.
[[ -z ${OPAL_PREFIX:-} ]] || take_place_of "$OPAL_PREFIX"
ln -sfn "$prefix" /container/ompi # the name of it in the images of HPE's first generation, MPI_HOME of many scripts
