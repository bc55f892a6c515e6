#!/bin/bash
# Open MPI and its libfabric, from the distribution's packages.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

install_packages openmpi-bin libfabric1
record_packages openmpi-bin libfabric1
ldconfig
