# The two module tools: Lmod from its Debian package, and Environment Modules 5, only unpacked.
# shellcheck shell=bash disable=SC2034,SC2154  # see paths.sh

lmod_root=$(dirname "$(dirname "${LMOD_CMD:-/usr/share/lmod/lmod/libexec/lmod}")")
lmod_init=$lmod_root/init/bash
lmod_cmd=$lmod_root/libexec/lmod
modulecmd=$stack/envmodules/usr/lib/$(uname -m)-linux-gnu/modulecmd.tcl

modules_key() { key_of "$checkout"/dev/lib/{modules,debian}.sh; }

# Debian's lmod and environment-modules exclude each other, and removing one breaks the other's profile file.
make_modules() { unpack_modules "$stack/envmodules" bookworm; }

unpack_modules() { # unpack_modules DIR SUITE
    local work=$stack/work/envmodules
    rm -rf "$work" "$1"
    debian_download "$work" "$2" environment-modules
    dpkg-deb -x "$work"/environment-modules_*.deb "$1"
    sed -i -E "s|(set libdir )\{?(/usr/lib/[^}]*)\}?$|\1{$1\2}|" "$1"/usr/lib/*/modulecmd.tcl # its library in C, as at sites
    rm -rf "$work"
}
