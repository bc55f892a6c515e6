#!/bin/bash
# Links into /host/usr, which dangle until a host's /usr is bound there: users of HPE's images bind a host's libfabric
# to /host/lib and its /usr to /host/usr. They work with run, exec and shell. Only libraries that libfabric needs are
# linked: with all of the host's /usr/lib64 on the search path, its glibc would be found before the image's.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

place=/container/host-links
mkdir -p "$place" /host/lib /host/usr
for library in libcxi.so.1 libcxiutils.so.0 libjson-c.so.{3,5} libnl-3.so.200 libnl-genl-3.so.200 libjansson.so.4; do
    ln -sfn "/host/usr/lib64/$library" "$place/$library"
done
