#!/bin/bash
# Libraries of a host, copied into the image (--host-libs), so that nothing need be bound when it runs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

place=/container/host-libs
mkdir -p "$place"
cp -rL "$here/host-libs/." "$place/"
chmod -R go+rX "$place"
# SLES has its json-c under a name that Debian and Ubuntu gave up; the functions that libcxi calls are in both.
if [[ ! -e $place/libjson-c.so.3 ]]; then
    library=$(compgen -G "/usr/lib/*-linux-gnu/libjson-c.so.5" || compgen -G "/usr/lib64/libjson-c.so.5" || true)
    [[ -z $library ]] || ln -s "$library" "$place/libjson-c.so.3"
fi
ls "$place"/libfabric.so* >/dev/null || die "--host-libs: there is no libfabric.so* in it"
