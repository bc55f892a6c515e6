#!/bin/bash
# The last component: update the loader's cache, list the image's packages, and remove temporary files.
# LIBRARIES: additional directories for the loader.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

# list_distribution: print KIND NAME VERSION of each distribution package.
list_distribution() {
    if type -P dpkg-query >/dev/null; then
        dpkg-query -W -f "deb/\${db:Status-Abbrev} \${Package} \${Version}\n" | sed -n 's#^deb/ii  *#deb #p'
    elif type -P rpm >/dev/null; then
        rpm -qa --qf 'rpm %{NAME} %{VERSION}-%{RELEASE}\n'
    fi
}

# list_python: print the same for the packages of each Python; if a Python fails to list them, the build continues.
list_python() {
    local python
    for python in /opt/*/envs/*/bin/python /opt/*/bin/python "$(type -P python3)"; do
        [[ ! -x $python ]] || "$python" -c '
import importlib.metadata
for found in importlib.metadata.distributions():
    print("pypi", found.metadata["Name"], found.version)' || say "$python: cannot list its packages for the SBOM"
    done
}

# Package names and versions contain no quotes or backslashes, so they need no escaping in JSON.
write_component() { # KIND NAME VERSION
    local version=${3//:/%3A} place=$1/ID
    [[ $1 != pypi ]] || place=pypi
    printf ' {"type": "library", "name": "%s", "version": "%s", "purl": "pkg:%s/%s@%s"}' \
        "$2" "$3" "${place/ID/${distribution:-linux}}" "$2" "${version//+/%2B}"
}

# write_list: write an SBOM in CycloneDX 1.5 format (ECMA-424).
write_list() {
    local separator='' kind name version distribution
    # shellcheck source=/dev/null
    distribution=$(source /etc/os-release 2>/dev/null && echo "${ID:-}") || true
    printf '{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": ['
    while read -r kind name version; do
        [[ $name$version =~ ^[A-Za-z0-9][A-Za-z0-9._+:~^-]*$ ]] || continue
        printf '%s\n' "$separator"
        write_component "$kind" "$name" "$version"
        separator=,
    done
    printf '\n]}\n'
}

read -r -a directories <<<"${LIBRARIES:-}"
((${#directories[@]} == 0)) || search_libraries "${directories[@]}"
ldconfig
{ list_distribution; list_python; } | sort -u | write_list >"${here%/*}/sbom.cdx.json"
rm -rf "$here"/work.*
