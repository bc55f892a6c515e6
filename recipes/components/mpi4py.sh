#!/bin/bash
# mpi4py, compiled against the MPI in the prefix. MPI4PY: its version; CYTHON: that of the Cython that it is made with.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

export MPICC=$prefix/bin/mpicc
export CONSTRAINT=none # NGC pins what it ships; these two need no other package, and none needs them
pip_install "cython==$CYTHON" # what is installed is used: no build downloads anything unseen
NO_BINARY=mpi4py pip_install "mpi4py==$MPI4PY"
