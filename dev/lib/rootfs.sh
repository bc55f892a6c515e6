# The base of an image: some of this machine's programs, with the libraries they need. Needs no root and no download.
# shellcheck shell=bash disable=SC2154  # see paths.sh

programs=(bash cat chmod cksum cp cut date df dirname basename echo env expr false find getent grep head hostname id
    kill ln ls mkdir mktemp mv nproc od printf pwd readlink realpath rm sed seq sha256sum sleep sort stat sync tail
    taskset tee test timeout touch tr true uname uniq wc xargs)

# Loaded by name at run time, so ldd does not show them: for name lookup, thread exit, and wheels.
opened_later=(libnss_files.so.2 libnss_dns.so.2 libresolv.so.2 libgcc_s.so.1 libstdc++.so.6 libpthread.so.0 libdl.so.2
    librt.so.1 libutil.so.1)

make_rootfs() { # make_rootfs ROOT
    local root=$1
    make_folders "$root"
    copy_programs "$root"
    write_etc "$root"
}

make_folders() {
    local folder
    mkdir -p "$1"/{usr,etc,proc,sys,dev,tmp,run,root,home,mnt,opt,srv,var/tmp,.singularity.d/env}
    for folder in bin lib lib64 sbin; do
        mkdir -p "$1/usr/$folder"
        ln -s "usr/$folder" "$1/$folder"
    done
    chmod 1777 "$1/tmp" "$1/var/tmp"
}

copy_programs() {
    local program
    for program in "${programs[@]}"; do
        install -D "$(type -P "$program")" "$1/usr/bin/$program"
    done
    ln -s bash "$1/usr/bin/sh"
    install "$(realpath /usr/bin/awk)" "$1/usr/bin/awk"
    install "$(realpath /usr/bin/which)" "$1/usr/bin/which"
}

# copy_libraries ROOT: copy every library that a program or library in ROOT needs.
copy_libraries() {
    local root=$1 library found
    while read -r library; do
        [[ -e $root$library ]] || install -D "$(realpath "$library")" "$root$library"
    done < <(libraries_of "$root")
    for library in "${opened_later[@]}"; do
        found=$(compgen -G "/lib/*-linux-gnu/$library" | head -n 1)
        [[ -z $found || -e $root$found ]] || install -D "$(realpath "$found")" "$root$found"
    done
}

libraries_of() {
    { find "$1/usr" "$1/opt" -type f \( -perm /111 -o -name '*.so*' \) -exec ldd {} + 2>/dev/null || true; } |
        sed -nE "s#^(.*=> |\t)(/[^ ]+) \(0x.*#\2#p" | grep -v "^$1" | sort -u
}

# hosts from files only: with dns, each rank of a job would wait for a server that does not exist, and print a warning.
write_etc() {
    cp /etc/os-release "$1/etc/os-release"
    printf 'hosts: files\npasswd: files\ngroup: files\n' >"$1/etc/nsswitch.conf"
    echo 'root:x:0:0:root:/root:/bin/bash' >"$1/etc/passwd"
    echo 'root:x:0:' >"$1/etc/group"
    touch "$1"/etc/{hosts,resolv.conf,localtime}
}
