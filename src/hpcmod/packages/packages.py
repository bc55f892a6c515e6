"""Check that the states of a user's package sets are complete and unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hpcmod.core.errors import HpcmodError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, Finding
from hpcmod.modules import Installed
from hpcmod.modules.values.install_record import PACKAGES
from hpcmod.modules.values.place import CHOICE_VARIABLE, parse_choice, state_file
from hpcmod.packages.changing import read_target
from hpcmod.packages.sets import PackageSet, find_sets, open_set
from hpcmod.packages.values.state import State


def verify_packages(installed: Installed, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about the user's own packages for an installation, in all sets this environment can use."""
    try:
        own = read_target(installed).place
        chosen = parse_choice(environ.get(CHOICE_VARIABLE, ""))
    except HpcmodError:  # it cannot have packages, or they are reported when it is used
        return
    shared = [open_set(own.name, chosen, environ)] if chosen and chosen.directory else []
    yield from check_packages([*find_sets(own.name, environ), *shared], own.tag)


def check_packages(sets: Iterable[PackageSet], tag: str) -> Iterator[Finding]:
    """Compare the file of each state that fits an image with the state's record.

    `tag`: Python and image; states for others are left out.
    """
    for own_set in sets:
        for number, its_tag in own_set.numbers().items():
            if its_tag == tag:
                yield _check_state(own_set, number)


def _check_state(own_set: PackageSet, number: int) -> Finding:
    shown = f"state {number} of `{own_set.choice.shown}`"
    try:
        state = own_set.read(number)
        path = own_set.directory / state_file(number, state.tag)
        digest = _sha256(own_set, state) if state.sha256 else ""
    except (HpcmodError, OSError) as err:
        return Finding(FAIL, PACKAGES, f"{shown} cannot be read: {err}", _cure(own_set, number, None))
    if not state.sha256:
        cure = f"To record one, build the state again: hpcmod rebase {own_set.asked}"
        return Finding(UNKNOWN, PACKAGES, f"{shown}: no sha256 in its record", cure)
    if digest != state.sha256:
        wrong = f"{shown}: {path}: expected sha256 {state.sha256} as installed, found {digest}"
        return Finding(FAIL, PACKAGES, wrong, _cure(own_set, number, state))
    return Finding(OK, PACKAGES, f"{shown}: {path}, sha256 {digest}")


def _cure(own_set: PackageSet, number: int, state: State | None) -> str:
    if number not in own_set.active_numbers():
        return f"Do not use this state. Old states are removed by: hpcmod packages {own_set.asked} --gc --keep 0"
    if state is None:
        return f"Use another state: hpcmod packages {own_set.asked} --use N; to list them: --history"
    return (
        f"Install the same packages again: hpcmod packages {own_set.asked} --lock > pylock.toml; "
        f"hpcmod add {own_set.asked} --lock pylock.toml"
    )


def _sha256(own_set: PackageSet, state: State) -> str:
    with own_set.tree.open_file(state_file(state.number, state.tag)) as file:
        return file_sha256(Path(f"/proc/self/fd/{file.fileno()}"))
