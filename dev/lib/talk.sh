# Talk to whoever is watching: stderr only, so that stdout stays data.
# shellcheck shell=bash

talk() { printf '%s\n' "$*" >&2; }

die() { # die MESSAGE [CURE]
    talk "$(basename "$0"): $1"
    [[ -z ${2:-} ]] || talk "  cure: $2"
    exit 1
}

# show_help FILE: the comment block a script opens with is its help text.
show_help() { awk 'NR == 1 { next } !/^#/ || /^# shellcheck/ { exit } { sub(/^# ?/, ""); print }' "$1"; }

# logged NAME COMMAND...: keep what COMMAND prints in a log, and show its end only if it fails.
logged() {
    local log=${stack:?}/logs/$1 status
    shift
    mkdir -p "${log%/*}"
    set +e # not `||`: that would let COMMAND, if it is a function, run on after a fault
    (
        set -e
        "$@"
    ) >"$log" 2>&1 </dev/null
    status=$?
    set -e
    ((status == 0)) && return
    tail -n 20 "$log" >&2
    die "failed (exit $status): $*" "read $log"
}
