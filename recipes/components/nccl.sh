#!/bin/bash
# NCCL of another version than the base's. GENCODE: the GPUs it is compiled for, as nvcc takes them.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source nccl
make -j "$jobs" src.build CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" NVCC_GENCODE="$GENCODE"
make install PREFIX="$prefix"
ldconfig
