# Do what needs root, then run the same script again as an ordinary user.
# shellcheck shell=bash disable=SC2154  # see paths.sh
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
source "$(dirname "${BASH_SOURCE[0]}")/upgrade.sh"

# leave_root PARTS ARGUMENT...: as root, prepare the machine for PARTS and run this script as the worker; else do nothing.
leave_root() {
    local parts=$1
    shift
    ((EUID == 0)) || return 0
    # shellcheck disable=SC2086  # a list of words
    install_packages $parts
    open_fuse
    make_worker
    give_stack_to_worker
    [[ " $parts " != *" upgrade "* ]] || keep_first_release
    flock "$stack/copy.lock" \
        /usr/bin/python3 "$checkout/dev/lib/copy_checkout.py" "$checkout" "$stack/checkout" "$worker"
    run_as_worker "$stack/checkout/dev/$(basename "$0")" "$@"
    exit
}

# udev does this on a full system, but not in a container or on a minimal system.
open_fuse() {
    # fusermount3 reads it to unmount, and a minimal Debian lacks it
    [[ -e /etc/mtab ]] || ln -s ../proc/self/mounts /etc/mtab
    [[ -e /dev/fuse ]] || mknod /dev/fuse c 10 229 2>/dev/null || return 0
    [[ $(stat -c %a /dev/fuse) == 666 ]] || chmod 666 /dev/fuse || true
}

make_worker() {
    touch /etc/subuid /etc/subgid # without them, useradd assigns no range, which the cluster needs
    id "$worker" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$worker"
    # users of real machines are in project groups, so the user of the tests is in one, too
    if [[ $worker == hpcmod-dev ]]; then
        groupadd --force hpcmod-dev-project
        usermod --append --groups hpcmod-dev-project "$worker"
    fi
    grep -q "^$worker:" /etc/subuid || usermod --add-subuids "$(free_range /etc/subuid)" "$worker"
    grep -q "^$worker:" /etc/subgid || usermod --add-subgids "$(free_range /etc/subgid)" "$worker"
}

free_range() { awk -F: 'BEGIN { n = 100000 } $2 + $3 > n { n = $2 + $3 } END { print n "-" n + 65535 }' "$1"; }

# Every user can write to /var/tmp: do not use a directory that another user created under this name.
give_stack_to_worker() {
    [[ ! -L $stack ]] || die "$stack is a symbolic link" "remove it, or set HPCMOD_DEV_DIR"
    [[ -d $stack ]] || mkdir -m 755 "$stack"
    [[ $(stat -c %U "$stack") == root && -z $(ls -A "$stack") ]] && chown "$worker:" "$stack"
    [[ $(stat -c %U "$stack") == "$worker" ]] || die "$stack belongs to another user than $worker" "set HPCMOD_DEV_DIR"
}

# The worker's pip must use the same indexes as root's pip, but only root can read root's configuration.
give_pip_config() {
    local file
    for file in "${PIP_CONFIG_FILE:-}" "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf"; do
        [[ -f $file ]] || continue
        install -m 600 -o "$worker" "$file" "$stack/pip.conf"
        PIP_CONFIG_FILE=$stack/pip.conf
        return
    done
}

# kept_variables: print NAME=VALUE of the variables to pass to the worker, each terminated by NUL.
kept_variables() {
    env -0 | grep -zE '^(PATH|LANG|LC_[A-Z]+|TERM|TZ|CI|NO_COLOR|HPCMOD_[A-Z_]+|PIP_[A-Z_]+|DEBIAN_MIRROR|([A-Z_]+_)?(CERT|CA)_[A-Z_]+|[A-Za-z]+_(proxy|PROXY))='
}

run_as_worker() {
    local -a kept
    export PIP_CONFIG_FILE=${PIP_CONFIG_FILE:-}
    give_pip_config
    [[ -n $PIP_CONFIG_FILE ]] || unset PIP_CONFIG_FILE
    export HPCMOD_DEV_DIR=$stack
    PATH=$(tr : '\n' <<<"$PATH" | grep -v "^$HOME/" | paste -sd :) # the worker cannot access programs in root's home
    mapfile -d '' -t kept < <(kept_variables)
    cd "$stack/checkout" || exit
    env -i "${kept[@]}" HOME="$(getent passwd "$worker" | cut -d: -f6)" USER="$worker" LOGNAME="$worker" \
        setpriv --reuid "$worker" --regid "$(id -g "$worker")" --init-groups bash "$@"
}
