# Functions that the components share. A component begins: set -euo pipefail; source "$(dirname "$0")/common.sh"
# shellcheck shell=bash

here=$(cd "$(dirname "$0")" && pwd) # in an image: /opt/hpcmod/build
prefix=${PREFIX:-/container/hpc}    # where what is built from source goes
jobs=${JOBS:-$(nproc)}
shopt -s inherit_errexit
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

say() { printf 'hpcmod: %s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# enter_work: a directory of this script alone, gone when it ends. Never /tmp: in %post that is the host's.
enter_work() {
    work=$(mktemp -d "$here/work.XXXXXX")
    trap 'cd / && rm -rf "$work"' EXIT
    export TMPDIR=$work
    cd "$work" || exit
}

# locked KIND NAME VERSION: the checksums that the lock has for it, one a line.
locked() {
    local kind name version sum _
    while read -r kind name version sum _; do
        [[ "$kind $name $version" != "$1 $2 $3" ]] || printf '%s\n' "$sum"
    done <"$here/lock"
}

# record KIND NAME VERSION SHA256 ORIGIN: what went into the image; `hpcmod build` reads it back into the lock.
record() { printf '%s %s %s %s %s\n' "$@" >>"$here/used"; }

# verify KIND NAME VERSION FILE ORIGIN: hold a file against the lock, and record it.
verify() {
    local sum known
    known=$(locked "$1" "$2" "$3")
    sum=$(sha256sum "$4")
    sum=${sum%% *}
    [[ -n $known ]] || say "first use of $2 $3, no checksum known yet: sha256 $sum"
    [[ ${known:-$sum} == "$sum" ]] || die "$2 $3: wrong checksum: expected $known, found $sum"
    record "$1" "$2" "$3" "$sum" "$5"
}

# fetch NAME: print the path of the source, verified. NAME_VERSION and NAME_URL say which; offline sources come first.
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
    type -P curl >/dev/null || die "$2 is not among the offline sources, and there is no curl to download it from $1"
    say "downloading $1"
    curl --fail --silent --show-error --location --retry 3 --proto '=https' --output "$work/$2" "$1" ||
        die "$2 is not among the offline sources, and cannot be downloaded from $1"
    printf '%s\n' "$work/$2"
}

source_file() { # NAME VERSION URL: as hpcmod names it among the sources
    local end name=${1//\//-} version=${2//\//-}
    for end in tar.gz tar.bz2 tar.xz tgz zip whl; do
        [[ $3 != *."$end" ]] || break
        end=
    done
    printf '%s\n' "$name-$version${end:+.$end}"
}

# unpack FILE: into a new directory below the work directory, which it prints.
unpack() {
    local place
    place=$(mktemp -d "$work/source.XXXXXX")
    tar -C "$place" --strip-components=1 --no-same-owner -xf "$1"
    printf '%s\n' "$place"
}

# source_of NAME: fetched, unpacked, and the directory printed.
source_of() {
    local file
    file=$(fetch "$1")
    unpack "$file"
}

# enter_source NAME: go to where it is unpacked; `cd "$(source_of NAME)"` would go on where the source is missing.
enter_source() {
    local place
    place=$(source_of "$1")
    cd "$place" || exit
}

# configure_make ARGUMENT...: the usual three steps in the current directory, made able to configure first if need be.
configure_make() {
    if [[ ! -x configure ]]; then ./autogen.sh; fi
    ./configure --prefix="$prefix" "$@"
    make -j "$jobs"
    make install
    ldconfig
}

# gpu_options CUDA-OPTION ROCM-OPTION: print the one for GPU=cuda or GPU=rocm, with the place of that toolkit.
gpu_options() {
    case ${GPU:-none} in
        cuda) printf '%s\n' "$1=${CUDA_HOME:-/usr/local/cuda}" ;;
        rocm) printf '%s\n' "$2=${ROCM_PATH:-/opt/rocm}" ;;
    esac
}

are_installed() { # PACKAGE...: of Debian and Ubuntu
    local found
    found=$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null) || return 1
    ! grep -qvx installed <<<"$found"
}

# install_packages PACKAGE...: of the base's own distribution, whose signatures vouch for them.
install_packages() {
    if type -P apt-get >/dev/null; then
        ! are_installed "$@" || return 0 # no network is needed then
        # As root of a user namespace there may be no other user to become.
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
        die "no package tool that is known: neither apt-get nor zypper nor dnf"
    fi
}

# record_packages PACKAGE...: which versions of the distribution's packages are there.
record_packages() {
    local package version
    for package in "$@"; do
        version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null ||
            rpm -q --qf '%{VERSION}' "$package" 2>/dev/null || true)
        [[ -z $version ]] || record distribution "$package" "$version" - -
    done
}

# take_place_of DIRECTORY: whoever looks for something there finds it in the prefix.
take_place_of() {
    [[ ! $1 -ef $prefix ]] || return 0
    rm -rf "$1"
    mkdir -p "$(dirname "$1")"
    ln -s "$prefix" "$1"
}

# search_libraries DIRECTORY...: for the loader, without a variable that a user's own would replace.
search_libraries() {
    mkdir -p /etc/ld.so.conf.d
    printf '%s\n' "$@" >/etc/ld.so.conf.d/00-hpcmod.conf
    ldconfig
}

# Python: hold what pip would install against the lock, write it down with its checksums, and record it.
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

# pip_install REQUIREMENT...: resolved first, held against the lock, and only then installed. INDEX: an index besides
# pip's own. NO_BINARY: what is compiled here. CONSTRAINT=none: the base's own constraints do not count. The directory
# `wheels`, where there is one, is all that pip may look into.
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
