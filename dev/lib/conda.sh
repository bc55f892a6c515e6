# The layout of the AI containers of large sites: a conda installation with a Python environment named pytorch.
# shellcheck shell=bash disable=SC2154  # see paths.sh

conda=/opt/miniconda3
conda_env=$conda/envs/pytorch

# Left out of the standard library: modules that no job imports, and Debian's changes: EXTERNALLY-MANAGED stops pip.
not_needed=(test idlelib lib2to3 turtledemo tkinter pydoc_data dist-packages 'config-*' EXTERNALLY-MANAGED
    __phello__ 'nis.*' '_dbm.*' '_codecs_??.*' '_test*' sitecustomize.py)

make_conda() { # make_conda ROOT: with an empty environment
    copy_python "$1$conda_env"
    use_site_packages "$1$conda_env/lib/$(python_name)" "$1"
    write_activate "$1$conda/bin"
    # shellcheck disable=SC2016  # expanded in the container
    printf 'export WITH_CONDA="source %s/bin/activate pytorch"\n' "$conda" >"$1/.singularity.d/env/91-conda.sh"
    chmod 755 "$1/.singularity.d/env/91-conda.sh"
}

python_name() { basename "$(realpath "$system_python")"; }

# A prefix of its own, not a virtual environment: Python finds its library next to its program.
copy_python() {
    local name left_out
    name=$(python_name)
    mapfile -t left_out < <(printf -- '--exclude=%s\n' "${not_needed[@]}")
    mkdir -p "$1/bin" "$1/lib/$name/site-packages"
    install "$(realpath "$system_python")" "$1/bin/$name"
    ln -s "$name" "$1/bin/python3"
    ln -s "$name" "$1/bin/python"
    tar -C /usr/lib "${left_out[@]}" -cf - "$name" | tar -C "$1/lib" -xf -
}

# Debian's Python searches dist-packages unless it is in a virtual environment. Its `site` is built in, so a file that it
# imports at start adds site-packages; in a virtual environment on top, `site` itself does.
use_site_packages() {
    sed -i "s/'prefix': prefix_scheme,/'prefix': 'posix_prefix',/" "$1/sysconfig.py"
    cat >"$1/sitecustomize.py" <<'END'
import os
import site
import sys

if sys.prefix == sys.base_prefix:
    site.addsitedir(os.path.join(os.path.dirname(os.__file__), "site-packages"))
END
    install -m 644 -Dt "$2/usr/share/python-wheels" /usr/share/python-wheels/{pip,setuptools}-*.whl # of Debian's ensurepip
}

write_activate() {
    mkdir -p "$1"
    cat >"$1/activate" <<'END'
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

# conda_pip ROOT ARGUMENT...: install into the environment. Byte code is generated later, only for imported modules.
conda_pip() {
    local root=$1
    shift
    "$venv/bin/python" -m pip --python "$root$conda_env/bin/python" install --disable-pip-version-check --no-compile "$@"
}

# Scripts that pip wrote contain the path of the Python with which they were installed.
fix_programs() {
    grep -lIF "$1$conda_env" "$1$conda_env"/bin/* | while read -r program; do
        sed -i "s#$1$conda_env#$conda_env#g" "$program"
    done
}

compile_some() { # compile_some ROOT: the standard library's fixed files, and small packages
    local lib=$1$conda_env/lib
    "$1$conda_env/bin/python" -m compileall -q -s "$1" "$lib"/*/{sitecustomize,sysconfig}.py "$lib"/*/site-packages
}
