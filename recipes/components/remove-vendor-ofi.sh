#!/bin/bash
# The libfabric and the plugin that NGC images have from 24.11 on would be found before ours.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

rm -rf /opt/amazon /etc/ld.so.conf.d/*amazon* /etc/ld.so.conf.d/*efa*
ldconfig
