# Single packages from Debian, unpacked in the stack: the system's apt lists and dpkg's database are not changed.
# shellcheck shell=bash disable=SC2016  # $(SITE) etc. are apt's

# debian_mirror: print the mirror that this machine's apt uses. Reads one-line and deb822 sources.
debian_mirror() {
    apt-get indextargets --format '$(SITE) $(ORIGIN) $(LABEL)' 'Created-By: Packages' |
        awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

# apt_config DIR: configure an apt with lists and cache in DIR. /etc/apt/apt.conf.d still applies.
apt_config() {
    mkdir -p "$1"/{lists/partial,cache/archives/partial}
    cat >"$1/apt.conf" <<END
Dir::State::lists "$1/lists";
Dir::Cache "$1/cache";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Sandbox::User "";
END
}

# only_suite DIR MIRROR SUITE: restrict that apt to one suite.
only_suite() {
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$2" "$3" >"$1/sources.list"
    cat >>"$1/apt.conf" <<END
Dir::Etc::sourcelist "$1/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
END
}

# choose_mirror DIR: print the mirror to use; an apt in DIR finds it if this machine has no lists.
choose_mirror() {
    local mirror=${DEBIAN_MIRROR:-$(debian_mirror)}
    if [[ -z $mirror ]]; then
        APT_CONFIG=$1/apt.conf apt-get update -qq
        mirror=$(APT_CONFIG=$1/apt.conf debian_mirror)
    fi
    [[ -n $mirror ]] || die "no Debian mirror in apt's sources" "set DEBIAN_MIRROR=URL"
    printf '%s\n' "$mirror"
}

# debian_download DIR SUITE PACKAGE...: download the .deb files of PACKAGEs to DIR.
debian_download() (
    local dir=$1 suite=$2 mirror
    shift 2
    apt_config "$dir"
    mirror=$(choose_mirror "$dir")
    only_suite "$dir" "$mirror" "$suite"
    export APT_CONFIG=$dir/apt.conf
    apt-get update -qq
    cd "$dir" || exit
    apt-get download -qq "$@"
)
