# A Python environment with this checkout (editable), EasyBuild and the development tools.
# shellcheck shell=bash disable=SC2154  # see paths.sh

# Debian's own Python: one from a version manager may be in a home directory that the worker cannot read.
system_python=/usr/bin/python3

venv_key() { key_of "$checkout" "$("$system_python" --version)" "$checkout"/{setup.cfg,pyproject.toml,dev/lib/venv.sh}; }

# wheel and setuptools first: EasyBuild has no pyproject.toml, and without them pip builds such packages slowly.
# --no-compile: takes a quarter of the time, and most of the modules are never imported.
make_venv() {
    "$system_python" -m venv "$venv"
    venv_pip --no-compile wheel setuptools
    venv_pip --no-compile -e "${checkout}[dev]"
    # py-spy apart: tests choose whether it is on PATH
    venv_pip --no-compile --no-deps --upgrade --target "$stack/tools/py-spy" py-spy
}

venv_pip() { logged pip "$venv/bin/python" -m pip install --disable-pip-version-check "$@"; }
