#!/bin/bash
# The distribution's Python in the layout of the AI containers of large sites: /opt/miniconda3, environment pytorch.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

conda=/opt/miniconda3
environment=$conda/envs/pytorch

# A prefix of its own, not a virtual environment: a user's virtual environment on top would not see its packages.
copy_python() {
    local program name
    program=$(realpath /usr/bin/python3)
    name=$(basename "$program")
    mkdir -p "$environment/bin" "$environment/lib"
    cp "$program" "$environment/bin/$name"
    ln -s "$name" "$environment/bin/python3"
    ln -s "$name" "$environment/bin/python"
    cp -r "/usr/lib/$name" "$environment/lib/$name"
    rm -rf "$environment/lib/$name"/{test,idlelib,lib2to3,turtledemo,tkinter,pydoc_data,dist-packages} \
        "$environment/lib/$name/EXTERNALLY-MANAGED"
    mkdir -p "$environment/lib/$name/site-packages"
    use_site_packages "$environment/lib/$name"
}

# Debian's Python searches dist-packages, and has `site` built in: sitecustomize, imported at start, adds site-packages.
use_site_packages() {
    sed -i "s/'prefix': prefix_scheme,/'prefix': 'posix_prefix',/" "$1/sysconfig.py"
    cat >"$1/sitecustomize.py" <<'END'
import os
import site
import sys

if sys.prefix == sys.base_prefix:
    site.addsitedir(os.path.join(os.path.dirname(os.__file__), "site-packages"))
END
}

write_activate() {
    mkdir -p "$conda/bin"
    cat >"$conda/bin/activate" <<'END'
# To be sourced, as conda's own: source activate ENVIRONMENT
CONDA_PREFIX=/opt/miniconda3
if [ "${1:-base}" != base ]; then CONDA_PREFIX=$CONDA_PREFIX/envs/$1; fi
if [ ! -d "$CONDA_PREFIX" ]; then
    echo "EnvironmentNameNotFound: Could not find conda environment: $1" >&2
    return 1
fi
CONDA_DEFAULT_ENV=${1:-base}
CONDA_SHLVL=1
PATH=$CONDA_PREFIX/bin:$PATH
export CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_SHLVL PATH
END
}

# The wheels of pip and setuptools that the distribution ships for virtual environments.
install_pip() {
    local wheel
    wheel=$(compgen -G '/usr/share/python-wheels/pip-*.whl')
    PYTHONPATH=$wheel "$environment/bin/python" -m pip install --quiet --no-index --no-warn-script-location \
        --root-user-action ignore --find-links /usr/share/python-wheels pip setuptools
}

install_packages python3 python3-venv ca-certificates
record_packages python3
copy_python
write_activate
install_pip
