#!/bin/bash
# Python packages by pip. PACKAGES: requirements with versions; INDEX, NO_BINARY, CONSTRAINT, PYTHON: see pip_install.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

read -r -a wanted <<<"$PACKAGES"
pip_install "${wanted[@]}"
