#!/bin/bash
# mpi4py, compiled against the MPI in the prefix. MPI4PY: its version; CYTHON: the version of Cython to build it with.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

export MPICC=$prefix/bin/mpicc
export CONSTRAINT=none # NGC pins its packages; these two have no dependencies, and nothing depends on them
pip_install "cython==$CYTHON" # installed first, so that the build itself downloads nothing unverified
NO_BINARY=mpi4py pip_install "mpi4py==$MPI4PY"
