#!/bin/bash
# The user space of Slingshot, for the CXI provider of libfabric: headers and libcxi.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

headers=$(source_of shs-cassini-headers)
driver=$(source_of shs-cxi-driver)
mkdir -p "$prefix/include" "$prefix/share"
cp -r "$headers/include/." "$driver/include/." "$prefix/include/"
cp -r "$headers/share/." "$prefix/share/"

enter_source shs-libcxi
# One of its tools has the path of the register definitions in its source (shs-libcxi issue 4).
sed -i "s#/usr/share/cassini-headers#$prefix/share/cassini-headers#" utils/cxi_dump_csrs.py
configure_make CPPFLAGS="-I$prefix/include" --with-udevrulesdir="$prefix/lib/udev/rules.d" \
    --with-systemdsystemunitdir="$prefix/lib/systemd/system"
