#!/bin/bash
# Remove the libfabric and the plugin of NGC images (24.11 and later), which would be found before ours.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

rm -rf /opt/amazon /etc/ld.so.conf.d/*amazon* /etc/ld.so.conf.d/*efa*
ldconfig
