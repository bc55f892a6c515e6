# A second release of libfabric for an image, with the glibc it was built for.
# shellcheck shell=bash disable=SC2154  # see paths.sh

# The Debian release after the one whose libfabric-bin dev/stack installs, and the libraries that its libfabric needs.
fabric_suite=trixie
fabric_packages=(libc6 libfabric1 libfabric-bin libibverbs1 ibverbs-providers librdmacm1t64 libnl-3-200 libnl-route-3-200
    libnuma1 libpsm2-2)

fabric_key() { key_of "$checkout"/dev/lib/{fabric,debian}.sh; }

make_fabric() {
    local work=$stack/work/fabric new=$stack/fabric.new package
    rm -rf "$work" "$new"
    debian_download "$work" "$fabric_suite" "${fabric_packages[@]}"
    for package in "$work"/*.deb; do dpkg-deb -x "$package" "$new"; done
    rm -rf "$work" "${new:?}"/usr/{share,sbin} "$stack/fabric"
    mv "$new" "$stack/fabric"
}
