"""Rebuild a package set for another image: resolve the same requirements again, and report what that changes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError
from hpcmod.packages.builder import Builder
from hpcmod.packages.building import build_state, resolve_packages
from hpcmod.packages.sets import PackageSet
from hpcmod.packages.values.compare import (
    CONFLICT,
    GONE,
    SAME,
    PackageDifference,
    compare_with_image,
    find_replaced,
)
from hpcmod.packages.values.conda import NO_CONDA
from hpcmod.packages.values.plan import PackageChange, PackageTarget, StatePlan, make_state_plan
from hpcmod.packages.values.requirement import name_of
from hpcmod.packages.values.state import Locked, State


@dataclass(frozen=True)
class Rebase:
    """Plan of a rebuild, and what it changes."""

    source: State
    plan: StatePlan
    """Plan that pip accepts; if packages fail, the one that it rejected."""
    differences: tuple[PackageDifference, ...]
    """What becomes of each package, sorted by name."""

    @property
    def failures(self) -> list[PackageDifference]:
        """Return the packages that cannot be installed."""
        return [difference for difference in self.differences if difference.verdict in (GONE, CONFLICT)]


def choose_source(target: PackageTarget, own_set: PackageSet, wanted: str) -> State:
    """Return the state whose requirements are to be resolved again.

    `wanted`: Number of a state, or version of the container that it was made for; empty: the active state unless it has
        no packages, else the newest active one for another image.

    Raises NotFoundError if there is none.
    """
    if wanted.isdecimal() and int(wanted) in own_set.numbers():
        return own_set.read(int(wanted))
    states, active = own_set.states(), own_set.active_numbers()
    if wanted:
        states = [state for state in states if state.origin.module.partition("/")[2].startswith(wanted)]
    elif (used := own_set.active(target.place.tag)) and not used.is_empty:
        states = [used]
    else:
        states = [state for state in states if not state.is_empty and (state.number in active or not active)]
    chosen = [state for state in states if state.number in active] or states
    if not chosen:
        version = f" for version {wanted}" if wanted else ""
        raise NotFoundError(
            f"you have no packages `{own_set.choice.shown}`{version} of {own_set.name}",
            f"To take those of an old state: hpcmod rebase {own_set.asked} --from N; "
            f"see: hpcmod packages {own_set.asked} --history",
        )
    return chosen[-1]


def plan_rebase(
    target: PackageTarget,
    own_set: PackageSet,
    source: State,
    change: PackageChange,
    builder: Builder,
    *,
    keeps: Sequence[bool] = (),
) -> Rebase:
    """Return what rebuilding a state for an image would do; nothing is changed.

    The versions of the state are kept where they fit. For the image that it was made for, everything is resolved again.

    `change`: Options for pip, and packages to leave out.
    `keeps`: Whether to keep the versions of the state, tried in this order; empty for the default above.

    Raises HpcmodError if pip cannot ask the index.
    """
    fault: HpcmodError | None = None
    plans = []
    for keep in keeps or ((False,) if source.tag == target.place.tag else (True, False)):
        plan = make_state_plan(target, change, number=own_set.next_number(), parent=source, keep=keep)
        plans.append(plan)
        try:
            locked, conda = resolve_packages(plan, builder)
        except (BadInputError, NotFoundError) as err:
            fault = err
            continue
        differences = [*compare_with_image(source, locked, conda, target)]
        differences += find_replaced(own_set.active(target.place.tag), locked, conda, differences)
        return Rebase(source, plan, tuple(differences))
    rebase = Rebase(source, plan, tuple(_try_each(plans, source, builder)))
    if fault and not rebase.failures:
        raise fault
    return rebase


def carry_out(rebase: Rebase, own_set: PackageSet, builder: Builder) -> State:
    """Build the state of a rebuild and make it active; the states before stay.

    Raises HpcmodError as `build_state`; the set is then as it was.
    """
    with own_set.locked(builder.tell):
        own_set.check_not_edited(rebase.plan.target.place.tag)
        plan = replace(rebase.plan, number=own_set.next_number())
        before = own_set.active(plan.target.place.tag)
        return build_state(plan, own_set, builder, settle=partial(own_set.settle, before))


def _try_each(plans: Sequence[StatePlan], source: State, builder: Builder) -> Iterator[PackageDifference]:
    """Resolve each requirement on its own, with the first plan that fits it, and yield the ones that fail."""
    for line in sorted(plans[0].requirements, key=name_of):
        name = name_of(line) or line
        before = source.find(name)
        version = before.version if before else ""
        try:
            locked = _resolve_first(plans, line, builder)
        except NotFoundError as err:
            yield PackageDifference(name, GONE, version, detail=err.message.splitlines()[0])
        except BadInputError as err:
            yield PackageDifference(name, CONFLICT, version, detail=err.message.splitlines()[0].removesuffix(":"))
        else:
            alone = replace(source, requirements=(line,), conda=NO_CONDA)
            changes = compare_with_image(alone, locked, NO_CONDA, plans[0].target)
            own = [change for change in changes if change.name == name]
            yield own[0] if own else PackageDifference(name, SAME, version)


def _resolve_first(plans: Sequence[StatePlan], line: str, builder: Builder) -> tuple[Locked, ...]:
    """Return what pip installs for one requirement with the first plan that fits; if none fits, the last error."""
    for plan in plans[:-1]:
        with contextlib.suppress(BadInputError, NotFoundError):
            return resolve_packages(_alone(plan, line), builder)[0]
    return resolve_packages(_alone(plans[-1], line), builder)[0]


def _alone(plan: StatePlan, line: str) -> StatePlan:
    return replace(plan, requirements=(line,), lines=(line,), parent=None, conda=NO_CONDA)
