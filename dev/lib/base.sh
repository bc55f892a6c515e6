# Inputs of the images that tests build: a small Debian as the base, and the wheels for the recipe pytorch-cpu.
# shellcheck shell=bash disable=SC2154  # see paths.sh

base_suite() { # this machine's, so that the wheels fit both Pythons
    local suite
    # shellcheck source=/dev/null
    suite=$(source /etc/os-release && [[ $ID == debian ]] && echo "$VERSION_CODENAME")
    printf '%s\n' "${suite:-bookworm}"
}

base_key() { key_of "$(base_suite)" "$checkout"/dev/lib/{base.sh,oci_layout.py}; }

# python3-venv contains pip's wheel. An expired mirror is accepted if this machine's apt accepts it.
make_base() {
    local work=$stack/work/base mirror valid
    rm -rf "$work"
    mkdir -p "$work" "$stack/images"
    apt_config "$work"
    mirror=$(choose_mirror "$work")
    valid=$(apt-config dump --format '%v' Acquire::Check-Valid-Until)
    TMPDIR=$work logged base mmdebstrap --mode=unshare --variant=minbase --include=python3,python3-venv,ca-certificates \
        --aptopt="Acquire::Check-Valid-Until \"${valid:-true}\"" "$(base_suite)" "$work/base.tar" "$mirror"
    "$venv/bin/python" "$checkout/dev/lib/oci_layout.py" "$work/base.tar" "$base_image"
    rm -rf "$work"
}

# recipe_setting NAME: print a version from the recipe.
recipe_setting() { sed -nE "s/^$1 = \"(.*)\"/\1/p" "$checkout/recipes/pytorch-cpu.toml"; }

wanted_wheels() {
    local name
    for name in torch numpy mpi4py mpich; do printf '%s==%s\n' "$name" "$(recipe_setting "$name")"; done
}

wheels_key() { key_of "$("$venv/bin/python" --version)" "$(wanted_wheels)"; }

make_wheels() {
    local -a wanted
    mapfile -t wanted < <(wanted_wheels)
    rm -rf "$wheels.new"
    logged wheels with_cpu_torch "$venv/bin/python" -m pip download --disable-pip-version-check --only-binary :all: \
        --dest "$wheels.new" "${wanted[@]}"
    rm -rf "$wheels"
    mv "$wheels.new" "$wheels"
}
