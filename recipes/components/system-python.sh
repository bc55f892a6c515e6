#!/bin/bash
# The distribution's Python as `python`, into which pip may install: an image is one environment.
# PIP: the version of pip to install if the distribution's is older than 22.2, which has no `--dry-run --report`.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

newer_pip() { # VERSION
    local wheel=$work/pip-$1-py3-none-any.whl options=(--disable-pip-version-check --no-deps)
    [[ ! -d $here/wheels ]] || options+=(--no-index --find-links "$here/wheels")
    python -m pip download "${options[@]}" --only-binary :all: --dest "$work" "pip==$1"
    verify wheel pip "$1" "$wheel" "${wheel##*/}"
    python -m pip install "${options[@]}" "$wheel"
}

install_packages python3 python3-dev python3-pip python3-setuptools python3-wheel
record_packages python3
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
[[ -e /usr/local/bin/python ]] || ln -s /usr/bin/python3 /usr/local/bin/python
[[ $(python -m pip install --help) == *--report* ]] || newer_pip "${PIP:?pip here is older than 22.2}"
