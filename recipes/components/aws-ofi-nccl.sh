#!/bin/bash
# The network plugin that NCCL and RCCL need to use libfabric. GPU: cuda or rocm; EXTRAS: as --with.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source aws-ofi-nccl
options=(--with-libfabric="$prefix" --disable-tests)
case $GPU in
    cuda)
        case $ARCH in amd64) target=x86_64-linux ;; arm64) target=sbsa-linux ;; esac
        toolkit=${CUDA_HOME:-/usr/local/cuda}/targets/$target
        [[ -d $toolkit ]] || toolkit=${CUDA_HOME:-/usr/local/cuda}
        options+=(--with-cuda="$toolkit")
        ;;
    rocm) options+=(--with-rocm="${ROCM_PATH:-/opt/rocm}") ;;
esac
if [[ ,$EXTRAS, == *,aws-trace,* ]]; then options+=(--enable-trace); fi
configure_make "${options[@]}"
# The plugin's name depends on its version and vendor; NCCL and RCCL look for one of these two.
for name in libnccl-net.so librccl-net.so; do
    [[ -e $prefix/lib/$name ]] && continue
    for other in libnccl-net.so librccl-net.so libnccl-net-ofi.so librccl-net-ofi.so; do
        if [[ -e $prefix/lib/$other ]]; then ln -s "$other" "$prefix/lib/$name"; break; fi
    done
done
compgen -G "$prefix/lib/lib[nr]ccl-net*.so" >/dev/null || die "the plugin was not installed in $prefix/lib"
