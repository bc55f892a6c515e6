# Messages for people: on stderr, because stdout is data.
# shellcheck shell=bash

talk() { printf '%s\n' "$*" >&2; }

die() { # die MESSAGE [CURE]
    talk "$(basename "$0"): $1"
    [[ -z ${2:-} ]] || talk "  cure: $2"
    exit 1
}

# show_help FILE: print the comment block at the start of a script, which is its help text.
show_help() { awk 'NR == 1 { next } !/^#/ || /^# shellcheck/ { exit } { sub(/^# ?/, ""); print }' "$1"; }

# logged NAME COMMAND...: write the output of COMMAND to a log, and print its end only if COMMAND fails.
logged() {
    local log=${stack:?}/logs/$1 status
    shift
    mkdir -p "${log%/*}"
    set +e # not `||`: with it, a function would continue after an error
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
