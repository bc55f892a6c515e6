# Show a command as a user would type it, run it in this very shell, and say how long it took.
# shellcheck shell=bash

say() { printf '\n# %s\n' "$*"; }

seconds_since() { awk -v began="$1" -v now="$EPOCHREALTIME" 'BEGIN { printf "%.1f", now - began }'; }

# show COMMAND-LINE: stops everything, with the command's own exit code, if it fails.
show() {
    local began=$EPOCHREALTIME status
    printf '$ %s\n' "$1"
    set +eu # module tools do not mind either, and a user's shell has neither
    eval "$1" 2>&1
    status=$?
    set -eu
    printf '  [%s s]\n' "$(seconds_since "$began")"
    ((status == 0)) && return
    printf 'failed with exit code %s: %s\n' "$status" "$1" >&2
    exit "$status"
}
