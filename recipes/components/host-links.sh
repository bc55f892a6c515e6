#!/bin/bash
# /host/lib and /host/usr, where users of HPE's images bind a host's libfabric and its /usr: found under run, exec and
# shell alike, by links that lead nowhere until something is bound there. Only what libfabric needs is linked: the whole
# of a host's /usr/lib64 on the search path would put its glibc before the image's.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

place=/container/host-links
mkdir -p "$place" /host/lib /host/usr
for library in libcxi.so.1 libcxiutils.so.0 libjson-c.so.{3,5} libnl-3.so.200 libnl-genl-3.so.200 libjansson.so.4; do
    ln -sfn "/host/usr/lib64/$library" "$place/$library"
done
