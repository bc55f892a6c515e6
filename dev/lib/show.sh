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

# require_ranks N FILE: stop unless each of N ranks printed its last line into FILE. The exit code does not tell: srun ends
# with 0 also where Slurm could start none of them.
require_ranks() {
    local line='^rank [0-9]+ of '$1' on .*, parameters equal after one step$' ran
    ran=$(grep -E "$line" "$2" | cut -d, -f1 | sort -u | wc -l) || true
    ((ran == $1)) && return
    printf 'only %s of %s ranks ran to the end; the output above says why\n' "$ran" "$1" >&2
    exit 1
}
