#!/bin/bash
# A host's libraries, copied into the image (--host-libs), so that none have to be bound at run time.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

place=/container/host-libs
mkdir -p "$place"
cp -rL "$here/host-libs/." "$place/"
chmod -R go+rX "$place"
# SLES uses a soname of json-c that Debian and Ubuntu no longer have; both provide the functions that libcxi calls.
if [[ ! -e $place/libjson-c.so.3 ]]; then
    library=$(compgen -G "/usr/lib/*-linux-gnu/libjson-c.so.5" || compgen -G "/usr/lib64/libjson-c.so.5" || true)
    [[ -z $library ]] || ln -s "$library" "$place/libjson-c.so.3"
fi
ls "$place"/libfabric.so* >/dev/null || die "--host-libs: the directory contains no libfabric.so*"
