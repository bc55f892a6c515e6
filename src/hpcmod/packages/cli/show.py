"""Print states of packages, and the differences between them."""

from __future__ import annotations

from collections.abc import Sequence

from hpcmod.core.cli.output import format_size, print_table, tell
from hpcmod.packages.cli.outputs import PackagesChange, ShownState
from hpcmod.packages.cli.target import OwnSet
from hpcmod.packages.values.compare import SAME, PackageDifference, compare_packages
from hpcmod.packages.values.conda import CondaPackage
from hpcmod.packages.values.state import Locked, State


def find_changes(before: State | None, after: State) -> tuple[PackageDifference, ...]:
    """Return the packages that differ between two states."""
    of_conda = compare_packages(before.conda.packages if before else (), after.conda.packages, "conda")
    return (*(change for change in of_conda if change.verdict != SAME), *find_locked_changes(before, after.locked))


def find_locked_changes(before: State | None, after: Sequence[Locked]) -> tuple[PackageDifference, ...]:
    """Return the packages that differ between a state and what is installed now."""
    old = before.locked if before else ()
    return tuple(change for change in compare_packages(old, after) if change.verdict != SAME)


def show_change(
    own: OwnSet,
    *,
    before: State | None,
    state: State | None = None,
    changes: Sequence[PackageDifference] = (),
    dry_run: bool = False,
    plan: Sequence[str] = (),
) -> PackagesChange:
    """Return what a command changes in a set.

    `before`, `state`: The active state before the command, and the one that it made active; None if there is none.
    `plan`: Lines of a plan that is not carried out.
    """
    return PackagesChange(
        module=own.target.module,
        set=own.set.choice.shown,
        directory=own.set.directory,
        dry_run=dry_run,
        plan=tuple(plan),
        before=before.number if before else None,
        state=ShownState.make(own.set, state) if state else None,
        changes=tuple(changes),
    )


def count_packages(number: int) -> str:
    """Return a number of packages in words."""
    return f"{number} package{'s' * (number != 1)}"


def tell_active(own: OwnSet, state: State) -> None:
    """Tell that a new state is active."""
    tell(
        f"state {state.number} of `{own.set.choice.shown}` for {own.target.module} is active: "
        f"{count_packages(state.count)}, one file of {format_size(state.size)}"
    )


def tell_programs(own: OwnSet, before: State | None, state: State) -> None:
    """Tell which programs a new state has in addition, and how to start them from the host."""
    new = [name for name in state.programs if before is None or name not in before.programs]
    if new:
        example = max(new, key=lambda name: name in state.names)
        tell(f"programs: {', '.join(new)}; to start one: singularity exec $SIF {example}")


def tell_left_behind(own: OwnSet, state: State) -> None:
    """Tell which packages for another image of the container a state does not have, and how to take them over."""
    active = own.set.active_numbers()
    inside = {package.name for package in state.locked} | {package.name for package in state.conda.packages}
    others = (other for other in own.set.states() if other.number in active and other.tag != state.tag)
    for other in [other for other in others if not other.is_empty][-1:]:
        left = sorted(n for n in (other.names | other.conda.names) - inside if not own.target.find(n))
        if left:
            command = f"hpcmod rebase {own.set.asked} --from {other.number}"
            tell(f"not taken over from {other.origin.module}: {', '.join(left)}; to take them over: {command}")


def print_packages(state: State) -> None:
    """Print the packages of a state as a table: name, version, who asked for it, since when, size, source."""
    rows = [_row(package, state.names, _source(package)) for package in state.locked]
    rows += [_row(package, state.conda.names, f"conda: {_source(package)}") for package in state.conda.packages]
    rows += [[*pin.split("==", 1), "in the image", "", "", ""] for pin in state.from_image]
    print_table(("package", "version", "from you", "since", "size", "source"), rows)


def _row(package: Locked | CondaPackage, names: frozenset[str], source: str) -> list[str]:
    wanted = "yours" if package.name in names else "needed"
    return [package.name, package.version, wanted, package.since[:10], format_size(package.size), source]


def _source(package: Locked | CondaPackage) -> str:
    """Return the host or directory that a package came from."""
    scheme, _, rest = package.url.partition("://")
    if scheme == "file":
        return rest.rpartition("/")[0] if package.sha256 else rest  # a file, or a directory with code
    return rest.partition("/")[0]
