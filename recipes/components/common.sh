# Functions shared by the components. Each component starts with: set -euo pipefail; source "$(dirname "$0")/common.sh"
# shellcheck shell=bash

here=$(cd "$(dirname "$0")" && pwd) # in an image: /opt/hpcmod/build
prefix=${PREFIX:-/container/hpc}    # for software built from source
jobs=${JOBS:-$(nproc)}
shopt -s inherit_errexit
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

say() { printf 'hpcmod: %s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# enter_work: go to a temporary directory, removed when the script ends. Not in /tmp: in %post that is the host's.
enter_work() {
    work=$(mktemp -d "$here/work.XXXXXX")
    trap 'cd / && rm -rf "$work"' EXIT
    export TMPDIR=$work
    cd "$work" || exit
}

# locked KIND NAME VERSION: print the checksums from the lock, one per line.
locked() {
    local kind name version sum _
    while read -r kind name version sum _; do
        [[ "$kind $name $version" != "$1 $2 $3" ]] || printf '%s\n' "$sum"
    done <"$here/lock"
}

# record KIND NAME VERSION SHA256 ORIGIN: record a source that was used; `hpcmod build` adds it to the lock.
record() { printf '%s %s %s %s %s\n' "$@" >>"$here/used"; }

# verify KIND NAME VERSION FILE ORIGIN: compare a file's checksum with the lock, and record it.
verify() {
    local sum known
    known=$(locked "$1" "$2" "$3")
    sum=$(sha256sum "$4")
    sum=${sum%% *}
    [[ -n $known ]] || say "first use of $2 $3, no checksum known yet: sha256 $sum"
    [[ ${known:-$sum} == "$sum" ]] || die "$2 $3: wrong checksum: expected $known, found $sum"
    record "$1" "$2" "$3" "$sum" "$5"
}

# fetch NAME: verify a source and print its path. NAME_VERSION and NAME_URL select it; offline sources come first.
fetch() {
    local variable=${1^^} version url file
    variable=${variable//[^A-Z0-9]/_}
    version=${variable}_VERSION
    url=${variable}_URL
    version=${!version} url=${!url}
    file=$(source_file "$1" "$version" "$url")
    if [[ -f $here/sources/$file ]]; then file=$here/sources/$file; else file=$(download "$url" "$file"); fi
    verify source "$1" "$version" "$file" "$url"
    printf '%s\n' "$file"
}

download() { # URL FILE
    type -P curl >/dev/null || die "$2 is not among the offline sources, and curl is missing to download $1"
    say "downloading $1"
    curl --fail --silent --show-error --location --retry 3 --proto '=https' --output "$work/$2" "$1" ||
        die "$2 is not among the offline sources, and downloading it from $1 failed"
    printf '%s\n' "$work/$2"
}

source_file() { # NAME VERSION URL: print the file name that hpcmod gives a source
    local end name=${1//\//-} version=${2//\//-}
    for end in tar.gz tar.bz2 tar.xz tgz zip whl; do
        [[ $3 != *."$end" ]] || break
        end=
    done
    printf '%s\n' "$name-$version${end:+.$end}"
}

# unpack FILE: unpack into a new directory below the work directory, and print that directory.
unpack() {
    local place
    place=$(mktemp -d "$work/source.XXXXXX")
    tar -C "$place" --strip-components=1 --no-same-owner -xf "$1"
    printf '%s\n' "$place"
}

# source_of NAME: fetch and unpack a source, and print its directory.
source_of() {
    local file
    file=$(fetch "$1")
    unpack "$file"
}

# enter_source NAME: go to an unpacked source. `cd "$(source_of NAME)"` would not stop if the source is missing.
enter_source() {
    local place
    place=$(source_of "$1")
    cd "$place" || exit
}

# configure_make ARGUMENT...: configure, make and install in the current directory; run autogen.sh first if needed.
configure_make() {
    if [[ ! -x configure ]]; then ./autogen.sh; fi
    ./configure --prefix="$prefix" "$@"
    make -j "$jobs"
    make install
    ldconfig
}

# gpu_options CUDA-OPTION ROCM-OPTION: print the option for GPU=cuda or GPU=rocm, with the toolkit's directory.
gpu_options() {
    case ${GPU:-none} in
        cuda) printf '%s\n' "$1=${CUDA_HOME:-/usr/local/cuda}" ;;
        rocm) printf '%s\n' "$2=${ROCM_PATH:-/opt/rocm}" ;;
    esac
}

are_installed() { # PACKAGE...: on Debian and Ubuntu
    local found
    found=$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null) || return 1
    ! grep -qvx installed <<<"$found"
}

# install_packages PACKAGE...: install packages of the base's distribution, which verifies their signatures.
install_packages() {
    if type -P apt-get >/dev/null; then
        ! are_installed "$@" || return 0 # so that this works without a network
        # In a user namespace that maps only root, apt cannot switch to its user _apt.
        apt-get -o APT::Sandbox::User=root update -qq
        apt-get -o APT::Sandbox::User=root install -y -qq --no-install-recommends "$@"
        apt-get clean
        rm -rf /var/lib/apt/lists/*
    elif type -P zypper >/dev/null; then
        zypper --non-interactive --gpg-auto-import-keys install --no-recommends "$@"
        zypper clean --all
    elif type -P dnf >/dev/null; then
        dnf install -y --setopt=install_weak_deps=False "$@"
        dnf clean all
    else
        die "no supported package tool: neither apt-get nor zypper nor dnf"
    fi
}

# record_packages PACKAGE...: record the installed versions of the distribution's packages.
record_packages() {
    local package version
    for package in "$@"; do
        version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null ||
            rpm -q --qf '%{VERSION}' "$package" 2>/dev/null || true)
        [[ -z $version ]] || record distribution "$package" "$version" - -
    done
}

# take_place_of DIRECTORY: replace a directory by a link to the prefix.
take_place_of() {
    [[ ! $1 -ef $prefix ]] || return 0
    rm -rf "$1"
    mkdir -p "$(dirname "$1")"
    ln -s "$prefix" "$1"
}

# search_libraries DIRECTORY...: add directories to the loader's configuration; a user may replace LD_LIBRARY_PATH.
search_libraries() {
    mkdir -p /etc/ld.so.conf.d
    printf '%s\n' "$@" >/etc/ld.so.conf.d/00-hpcmod.conf
    ldconfig
}

# Python: compare the packages that pip would install with the lock, write them with their checksums, and record them.
check_report=$(
    cat <<'END'
import json
import re
import sys
import urllib.parse

lock, report, requirements, used = sys.argv[1:]
known = {}
for line in open(lock):
    kind, name, version, checksum, origin = line.split()
    if kind == "wheel":
        known.setdefault((name, version, origin), checksum)
wrong = []
with open(requirements, "w") as wanted, open(used, "a") as record:
    for item in json.load(open(report))["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        version = item["metadata"]["version"]
        url = item["download_info"]["url"]
        found = item["download_info"]["archive_info"]["hash"].partition("=")[2]
        file = urllib.parse.unquote(url.rpartition("/")[2].partition("#")[0])
        expected = known.get((name, version, file))
        if expected is None:
            print(f"hpcmod: first use of {file}, no checksum known yet: sha256 {found}", file=sys.stderr)
        elif expected != found:
            wrong.append(f"hpcmod: {file}: wrong checksum: expected {expected}, found {found}")
        wanted.write(f"{name} @ {url.partition('#')[0]} --hash=sha256:{found}\n")
        record.write(f"wheel {name} {version} {found} {file}\n")
sys.exit("\n".join(wrong) or 0)
END
)

# pip_install REQUIREMENT...: resolve, compare with the lock, then install. INDEX: an extra package index. NO_BINARY:
# packages to compile. CONSTRAINT=none: ignore the base image's constraints. If the directory `wheels` exists, pip uses
# nothing else.
pip_install() {
    local python=${PYTHON:-$(type -P python || type -P python3)}
    local options=(--disable-pip-version-check --no-input --root-user-action ignore --cache-dir "$work/cache")
    if [[ -d $here/wheels ]]; then
        options+=(--no-index --find-links "$here/wheels")
    elif [[ -n ${INDEX:-} ]]; then
        options+=(--extra-index-url "$INDEX")
    fi
    [[ -z ${NO_BINARY:-} ]] || options+=(--no-binary "$NO_BINARY" --no-build-isolation)
    [[ ${CONSTRAINT:-} != none ]] || export PIP_CONSTRAINT=
    "$python" -m pip install "${options[@]}" --quiet --dry-run --report "$work/report.json" "$@"
    "$python" - "$here/lock" "$work/report.json" "$work/requirements.txt" "$here/used" <<<"$check_report"
    [[ ! -s $work/requirements.txt ]] ||
        "$python" -m pip install "${options[@]}" --no-deps --require-hashes --requirement "$work/requirements.txt"
}
