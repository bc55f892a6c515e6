# Print a command as a user would type it, run it in this shell, and print its run time.
# shellcheck shell=bash

say() { printf '\n# %s\n' "$*"; }

seconds_since() { awk -v began="$1" -v now="$EPOCHREALTIME" 'BEGIN { printf "%.1f", now - began }'; }

# show COMMAND-LINE: if the command fails, exit with its exit code.
show() {
    local began=$EPOCHREALTIME status
    printf '$ %s\n' "$1"
    set +eu # as in a user's shell; module tools work with neither
    eval "$1" 2>&1
    status=$?
    set -eu
    printf '  [%s s]\n' "$(seconds_since "$began")"
    ((status == 0)) && return
    printf 'failed with exit code %s: %s\n' "$status" "$1" >&2
    exit "$status"
}

# require_ranks N FILE: stop unless FILE contains the last line of each of N ranks. srun's exit code is not enough: it is 0
# even if Slurm could not start any of them.
require_ranks() {
    local line='^rank [0-9]+ of '$1' on .*, parameters equal after one step$' ran
    ran=$(grep -E "$line" "$2" | cut -d, -f1 | sort -u | wc -l) || true
    ((ran == $1)) && return
    printf 'only %s of %s ranks finished; the output above shows why\n' "$ran" "$1" >&2
    exit 1
}
