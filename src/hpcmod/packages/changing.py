"""Change a package set: add and drop packages, undo, switch states, remove old ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hpcmod.core.errors import BadInputError, LackingError, NotFoundError
from hpcmod.modules import Installed
from hpcmod.modules.values.place import PackagePlace, parse_active_link, previous_link
from hpcmod.packages.builder import Builder
from hpcmod.packages.sets import PackageSet, find_edit
from hpcmod.packages.values.plan import PackageChange, PackageTarget, StatePlan, check_known, make_state_plan
from hpcmod.packages.values.state import State

KEPT = 3
"""Number of states that `collect` keeps by default, besides the active ones."""


def read_target(installed: Installed) -> PackageTarget:
    """Return the container that packages are added to, from the record of its installation.

    Raises LackingError if its image has no Python.
    """
    known, provenance = installed.record.own_packages, installed.record.provenance
    if known is None:
        raise LackingError(f"the image of {installed.module} has no Python, so it cannot have packages", "")
    return PackageTarget(
        module=installed.module,
        sif=installed.image.path,
        sha256=installed.image.sha256,
        python=known.python,
        venv=known.venv,
        place=PackagePlace(known.name, known.tag),
        packages=installed.record.packages,
        reference=provenance.reference if provenance else "",
    )


def plan_change(target: PackageTarget, own_set: PackageSet, change: PackageChange) -> StatePlan:
    """Return the plan of the state that a change makes, from the set as it is now.

    Raises BadInputError if a package to drop was not added.
    """
    parent = own_set.active(target.place.tag)
    check_known(parent, change.dropped, target.module)
    return make_state_plan(target, change, number=own_set.next_number(), parent=parent)


def make_change(
    target: PackageTarget, own_set: PackageSet, change: PackageChange, builder: Builder
) -> tuple[State | None, State]:
    """Build the state of a change and make it the active one; return the state before, and the new one.

    Raises HpcmodError as `build_state`; the set is then as it was.
    """
    from hpcmod.packages.building import build_state  # slow to import, and `undo` does not need it

    with own_set.locked(builder.tell):
        own_set.check_not_edited(target.place.tag)
        before = own_set.active(target.place.tag)
        if before and change.is_done(before):
            return before, before
        plan = plan_change(target, own_set, change)
        state = build_state(plan, own_set, builder, settle=partial(own_set.settle, before))
    return before, state


def undo_change(target: PackageTarget, own_set: PackageSet, builder: Builder) -> tuple[State, State]:
    """Make the state active that was before the active one; return both. Before the first is one that has nothing.

    Raises NotFoundError if there is nothing to undo.
    """
    with own_set.locked(builder.tell):
        active = own_set.active(target.place.tag)
        previous = own_set.previous_number(active) if active else None
        if active is None or (previous is None and active.is_empty):
            raise NotFoundError(
                f"there is nothing to undo in your packages `{own_set.choice.shown}` for {target.module}",
                f"See: hpcmod packages {own_set.asked} --history",
            )
        if previous is None:
            from hpcmod.packages.building import build_state

            empty = make_state_plan(target, PackageChange(action="undo"), number=own_set.next_number(), parent=None)
            return active, build_state(empty, own_set, builder, settle=partial(own_set.settle, None))
        state = own_set.read(previous)
        own_set.switch(state)
        own_set.tree.remove(previous_link(active.number, active.tag))
    return active, state


def use(target: PackageTarget, own_set: PackageSet, number: int, tell: Callable[[str], None]) -> State:
    """Make a state active and return it; `undo` goes back to the one before.

    Raises NotFoundError if there is no such state; BadInputError if it was made for another image.
    """
    with own_set.locked(tell):
        state = own_set.read(number)
        if state.tag != target.place.tag:
            made = state.origin
            raise BadInputError(
                f"state {number} was made for {made.module} (Python {made.python}), not for {target.module}",
                f"Rebuild its packages: hpcmod rebase {own_set.asked} --from {number}",
            )
        own_set.activate(state, own_set.active_number(state.tag))
    return state


def collect(own_set: PackageSet, *, keep: int, tell: Callable[[str], None], dry_run: bool) -> list[tuple[int, int]]:
    """Remove old states except the newest, active and edited ones, and parents of active ones; return what was removed.

    For each of them its number and bytes.

    A running container keeps the file of its state open, so it is not affected.
    """
    with own_set.locked(tell):
        numbers = own_set.numbers()
        active = own_set.active_numbers()
        parents = {state.number: state.parent for state in own_set.states() if state.number in active}
        edited = {edit.base for tag in numbers.values() if (edit := find_edit(own_set, tag))}
        links = (tag for tag in map(parse_active_link, own_set.tree.names()) if tag)
        is_known = active <= parents.keys() and all(own_set.active_number(tag) for tag in links)
        kept = max(0, len(numbers) - keep) if is_known else 0  # a record or link is damaged: each state may be the last
        wanted = {*list(numbers)[kept:], *active, *parents.values(), *edited}
        old = [(number, tag) for number, tag in numbers.items() if number not in wanted]
        if dry_run:
            return [(number, own_set.size(number, tag)) for number, tag in old]
        return [(number, own_set.remove(number, tag)) for number, tag in old]
