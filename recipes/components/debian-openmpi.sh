#!/bin/bash
# Open MPI and the libfabric that it is built for, from the distribution's packages.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

install_packages openmpi-bin libfabric1
record_packages openmpi-bin libfabric1
ldconfig
