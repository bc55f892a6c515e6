#!/bin/bash
# Another version of NCCL than the base image's. GENCODE: the GPUs to compile for, as options of nvcc.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source nccl
make -j "$jobs" src.build CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" NVCC_GENCODE="$GENCODE"
make install PREFIX="$prefix"
ldconfig
