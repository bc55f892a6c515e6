# Stamps: a thing is made again only when what it was made from has changed.
# shellcheck shell=bash disable=SC2154  # see paths.sh

# is_current NAME KEY: was NAME last made from KEY?
is_current() { [[ $(cat "${stack:?}/stamps/$1" 2>/dev/null) == "$2" ]]; }

set_current() {
    mkdir -p "${stack:?}/stamps"
    printf '%s\n' "$2" >"$stack/stamps/$1"
}

# key_of WORD...: one hash for files (their contents) and other words (as they are).
key_of() {
    local word
    for word in "$@"; do
        if [[ -f $word ]]; then cat "$word"; else printf '%s\n' "$word"; fi
    done | sha256sum | cut -d' ' -f1
}

# make_once NAME KEY COMMAND...: run COMMAND unless NAME is current, and say how long it took.
make_once() {
    local name=$1 key=$2 started=$SECONDS
    shift 2
    is_current "$name" "$key" && return
    talk "stack: making $name"
    "$@"
    set_current "$name" "$key"
    talk "stack: $name ready ($((SECONDS - started)) s)"
}
