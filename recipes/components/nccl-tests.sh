#!/bin/bash
# NCCL's benchmarks, in the directory `tests` of the prefix, with the prefix's MPI if there is one. MPI: as --mpi.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

enter_source nccl-tests
options=(CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" NVCC_GENCODE="$GENCODE")
if [[ $MPI != none ]]; then options+=(MPI=1 MPI_HOME="$prefix"); fi
if [[ -e $prefix/include/nccl.h ]]; then options+=(NCCL_HOME="$prefix"); fi
make -j "$jobs" "${options[@]}"
mkdir -p "$prefix/tests"
cp build/*_perf "$prefix/tests/"
