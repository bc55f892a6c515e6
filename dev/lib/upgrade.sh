# The first release, as it is in the history of git, for the test of upgrades.
# shellcheck shell=bash disable=SC2154  # see paths.sh

first_release=1.0.0
first_source=$stack/first-release.tar

# keep_first_release: save the source of the tag of that version or, until there is one, of the oldest commit with it. The copy
# that root makes for the worker has no history.
keep_first_release() {
    local commit git=(git -c "safe.directory=*" -C "$checkout")
    "${git[@]}" rev-parse --git-dir >/dev/null 2>&1 || return 0
    [[ $("${git[@]}" rev-parse --is-shallow-repository) != true ]] ||
        talk "stack: this clone has not all commits, so the first release may be missing: git fetch --unshallow"
    commit=$("${git[@]}" rev-parse --quiet --verify "refs/tags/v$first_release" ||
        "${git[@]}" log --reverse --format=%H -S"__version__ = \"$first_release\"" -- src/hpcmod/__init__.py |
        sed -n 1p)
    [[ -n $commit ]] || return 0
    "${git[@]}" archive --output "$first_source.$$" "$commit" src easyblocks easyconfigs recipes runscripts \
        setup.py setup.cfg pyproject.toml README.md LICENSE
    chmod 644 "$first_source.$$"
    mv -f "$first_source.$$" "$first_source"
}

upgrade_key() { key_of "$(venv_key)" "$first_source" "$checkout/dev/lib/upgrade.sh"; }

# Its dependencies are those of today's environment; only hpcmod itself and its `eb` are its own.
make_upgrade() {
    local top=$stack/upgrade libraries
    [[ -f $first_source ]] || die "no commit with version $first_release in the history of $checkout" \
        "run this in a clone of the whole repository: git fetch --unshallow"
    rm -rf "$top"
    mkdir -p "$top/source"
    tar -xf "$first_source" -C "$top/source"
    logged pip "$venv/bin/python" -m pip wheel --no-deps --no-build-isolation --wheel-dir "$top" "$top/source"
    "$system_python" -m venv --without-pip "$top"
    libraries=$("$top/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    logged pip "$venv/bin/python" -m pip --python "$top/bin/python" install --no-deps --no-compile "$top"/*.whl
    printf '%s\n' "$venv/${libraries#"$top/"}" >"$libraries/dependencies.pth"
    # shellcheck disable=SC2016 # evaluated by the program
    printf '#!/bin/sh\nexec "%s" -m easybuild.main "$@"\n' "$top/bin/python" >"$top/bin/eb"
    chmod 755 "$top/bin/eb"
    rm -rf "$top/source"
}
