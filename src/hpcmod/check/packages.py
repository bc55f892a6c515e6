"""Check that the states of a user's package sets are complete and unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from hpcmod.check.installation import PACKAGES
from hpcmod.errors import HpcmodError
from hpcmod.install.packages.sets import PackageSet
from hpcmod.model.finding import FAIL, OK, UNKNOWN, Finding
from hpcmod.model.packages.place import DEFAULT_SET, state_file
from hpcmod.model.packages.state import State
from hpcmod.render.quote import sh_word

_PIECE = 1 << 20  # bytes read at once


def check_packages(sets: Iterable[PackageSet], tag: str) -> Iterator[Finding]:
    """Compare the file of each state that fits an image with the state's record.

    Parameters
    ----------
    tag
        Python and image; states for others are left out.
    """
    for found in sets:
        for number, its_tag in found.numbers().items():
            if its_tag == tag:
                yield _check_state(found, number)


def _check_state(found: PackageSet, number: int) -> Finding:
    shown = f"state {number} of `{found.choice.shown}`"
    try:
        state = found.read(number)
        path = found.directory / state_file(number, state.tag)
        digest = _sha256(found, state) if state.sha256 else ""
    except (HpcmodError, OSError) as err:
        return Finding(FAIL, PACKAGES, f"{shown} cannot be read: {err}", _cure(found, number, None))
    if not state.sha256:
        cure = f"To record one, build the state again: hpcmod rebase {sh_word(found.name)}{_set_option(found)}"
        return Finding(UNKNOWN, PACKAGES, f"{shown}: no sha256 in its record", cure)
    if digest != state.sha256:
        wrong = f"{shown}: {path}: expected sha256 {state.sha256} as installed, found {digest}"
        return Finding(FAIL, PACKAGES, wrong, _cure(found, number, state))
    return Finding(OK, PACKAGES, f"{shown}: {path}, sha256 {digest}")


def _cure(found: PackageSet, number: int, state: State | None) -> str:
    name, option = sh_word(found.name), _set_option(found)
    if state is None or found.active_number(state.tag) != number:
        return f"Do not use this state. Old states are removed by: hpcmod packages {name}{option} --gc --keep 0"
    return (
        f"Install the same packages again: hpcmod packages {name}{option} --lock > my.lock; "
        f"hpcmod add {name}{option} --lock my.lock"
    )


def _set_option(found: PackageSet) -> str:
    choice = found.choice
    if choice.directory:
        return f" --shared {sh_word(choice.directory)}"
    return "" if choice.name == DEFAULT_SET else f" --set {choice.name}"


def _sha256(found: PackageSet, state: State) -> str:
    digest = sha256()
    with found.tree.open_file(state_file(state.number, state.tag)) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
