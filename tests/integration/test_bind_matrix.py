"""Combinations of the four bind variables, on nodes with and without the sources of the module's binds.

In each case, a container starts, sees the module's binds and the user's, and prints nothing about its variables.
Unloading restores the environment. Any two settings meet, including the module tool.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.integration.conftest import LOADERS, SNAPSHOT, Loader, installed, write_easyconfig, write_site
from tests.stack import Done, EasyBuild

pytestmark = pytest.mark.stack

MODULE = "Binds/1.0"

SITE = """
[binds]
required = ["{top}/m/there:/there"]
optional = [
    "{top}/m/probe:/probe",
    '{top}/m/with\\,comma:/comma',
    "{top}/m/with space:/space",
    '{top}/m/with\\:colon:/colon',
    ["{top}/m/fabric/*/lib:/fabric", "{top}/m/old-fabric:/fabric"],
    "{top}/m/link",
]
"""

STATES = ("all", "missing", "dangling", "comma", "space", "link")
"""What exists on the node: everything; no probe; a dangling link instead of it; required and odd names; a link."""

MATRIX = (
    SNAPSHOT
    + r"""
real=$(type -P singularity)
names=(SINGULARITY_BIND SINGULARITY_BINDPATH APPTAINER_BIND APPTAINER_BINDPATH)
make() { mkdir -p "$1" && : >"$1/mark"; }
users=(s_bind s_bindpath a_bind a_bindpath)
for place in "${users[@]}"; do make "$TOP/u/$place"; done

state() { # what is on the node; sets expected
    rm -rf "$TOP/m"
    make "$TOP/m/there"
    expected=(there)
    case $1 in
    all)
        for name in probe with,comma 'with space' with:colon fabric/1.{9..11}/lib old-fabric; do
            make "$TOP/m/$name"
        done
        # captured on nodes of which one has been updated already: this one has not
        ln -s nowhere "$TOP/m/fabric/1.11/lib/.on-host"
        ln -s mark "$TOP/m/fabric/1.9/lib/.on-host"
        ln -s mark "$TOP/m/fabric/1.10/lib/.on-host"
        echo newest >"$TOP/m/fabric/1.10/lib/mark"
        expected+=(probe comma space colon fabric)
        ;;
    missing) make "$TOP/m/with space"; expected+=(space) ;;
    dangling) ln -s nowhere "$TOP/m/probe"; make "$TOP/m/old-fabric"; expected+=(fabric) ;;
    comma) make "$TOP/m/with,comma"; expected+=(comma) ;;
    space) make "$TOP/m/with space"; make "$TOP/m/with:colon"; expected+=(space colon) ;;
    link) make "$TOP/m/tree/data"; ln -s tree "$TOP/m/link"; expected+=(link tree) ;;
    esac
}

variables() { # 4 digits: what each bind variable is
    local i
    for i in 0 1 2 3; do
        unset ${names[i]}
        case ${1:i:1} in
        1) export ${names[i]}= ;;
        2) export ${names[i]}="$TOP/u/${users[i]}:/${users[i]}"; expected+=(${users[i]}) ;;
        esac
    done
}

look='for p in there probe comma space colon fabric s_bind s_bindpath a_bind a_bindpath; do
    [ ! -e /$p/mark ] || printf "%s " $p
done
[ ! -e $0/m/link/data/mark ] || printf "link "
[ ! -e $0/m/tree/data/mark ] || printf "tree "
cat /fabric/mark 2>/dev/null || :'

check() { # STATE DIGITS
    state $1
    variables $2
    snapshot >before
    module load $MODULE 2>said || echo "$*: does not load"
    [[ ! -s said ]] || { echo "$*: loading says"; cat said; }
    seen=$("$real" exec "$SIF" sh -c "$look" "$TOP" 2>said) || echo "$*: does not start"
    ! grep -E 'INFO|WARNING|ERROR|FATAL' said | grep -v 'gocryptfs\|fuse2fs' || echo "$*: that was said"
    [[ $1 == all ]] && wanted=newest || wanted=
    [[ $(sort_words ${seen% *}) == $(sort_words ${expected[@]}) && ${seen##* } == "$wanted" ]] ||
        echo "$*: sees $seen, not ${expected[*]}"
    module unload $MODULE
    snapshot >after
    compare before after || echo "that was $*"
    ((++count))
}
sort_words() { printf '%s\n' "$@" | sort; }
"""
)


@pytest.fixture(scope="session")
def binds_module(both_syntaxes: Mapping[str, EasyBuild]) -> None:
    """Install a module whose site has the binds of SITE, in both syntaxes."""
    for eb in both_syntaxes.values():
        directory = eb.top / "binds-module"
        directory.mkdir()
        site = write_site(directory, SITE.format(top=eb.top))
        installed(eb, write_easyconfig(directory, name="Binds"), HPCMOD_SITE=str(site))


def pairs_of_cases() -> list[tuple[str, str, str]]:
    """Return a subset of all cases with pairwise coverage: module tool and syntax, state, digits."""
    shifts = [(0, i, 2 * i, i * i + i // 3 * 2) for i in range(len(STATES))]
    tools, of_state = list(LOADERS), (0, 0, 0, 0, 1, 2)
    return [
        (tools[(first + of_state[i]) % 3], state, "".join(str((first + shift) % 3) for shift in shifts[i]))
        for i, state in enumerate(STATES)
        for first in range(3)
    ]


def cases_of(loader: Loader) -> list[tuple[str, str]]:
    """Return the states and digits to test with a module tool and syntax."""
    tool = f"{loader.tool.name}-{loader.eb.syntax.lower()}"
    return [(state, digits) for name, state, digits in pairs_of_cases() if name == tool]


def run_matrix(loader: Loader, cases: str) -> Done:
    """Run the matrix over cases given as bash code."""
    return loader(f"{MATRIX}\n{cases}\necho $count cases", MODULE=MODULE, TOP=str(loader.eb.top))


@pytest.mark.usefixtures("binds_module")
def test_the_container_starts_and_sees_all_binds_with_any_settings_and_missing_paths(loader: Loader) -> None:
    found = cases_of(loader)
    assert len(found) >= len(STATES)
    done = run_matrix(loader, "\n".join(f"check {state} {digits}" for state, digits in found))
    assert done.stdout == f"{len(found)} cases\n"


@pytest.mark.usefixtures("binds_module")
def test_a_wrapper_starts_on_a_node_that_lacks_what_was_there_when_the_module_was_loaded(loader: Loader) -> None:
    done = run_matrix(
        loader,
        "state all; variables 2222; module load $MODULE; state dangling; variables_at_load=$APPTAINER_BINDPATH\n"
        'start-shell -c "$look" "$TOP"; echo; [[ $APPTAINER_BINDPATH == "$variables_at_load" ]] && echo unchanged',
    )
    first, *rest = done.stdout.splitlines()
    assert first.split() == ["there", "fabric", "s_bind", "s_bindpath", "a_bind", "a_bindpath"]
    assert rest == ["unchanged", "cases"]


@pytest.mark.usefixtures("binds_module")
def test_binds_added_by_the_user_remain_although_binds_were_searched(loader: Loader) -> None:
    seen = loader(
        f"{MATRIX}\nstate all; module load $MODULE; state missing\n"
        'export SINGULARITY_BINDPATH="$SINGULARITY_BINDPATH,/mine:/m"; module unload $MODULE\n'
        'echo "$SINGULARITY_BINDPATH"',
        MODULE=MODULE,
        TOP=str(loader.eb.top),
    )
    assert seen.stdout == "/mine:/m\n"
