# Stamps: rebuild something only if its inputs have changed.
# shellcheck shell=bash disable=SC2154  # see paths.sh

# is_current NAME KEY: check that NAME was last made from KEY.
is_current() { [[ $(cat "${stack:?}/stamps/$1" 2>/dev/null) == "$2" ]]; }

set_current() {
    mkdir -p "${stack:?}/stamps"
    printf '%s\n' "$2" >"$stack/stamps/$1"
}

# key_of WORD...: print one hash of the contents of files and of other words.
key_of() {
    local word
    for word in "$@"; do
        if [[ -f $word ]]; then cat "$word"; else printf '%s\n' "$word"; fi
    done | sha256sum | cut -d' ' -f1
}

# make_once NAME KEY COMMAND...: run COMMAND unless NAME is current, and print its run time.
make_once() {
    local name=$1 key=$2 started=$SECONDS
    shift 2
    is_current "$name" "$key" && return
    talk "stack: making $name"
    "$@"
    set_current "$name" "$key"
    talk "stack: $name ready ($((SECONDS - started)) s)"
}
