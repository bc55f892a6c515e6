"""Packages that an easyconfig names: pip in the container installs them, and they are packed next to the image.

They are in the file that LUMI's recipes make, `user-software.squashfs`, so everybody who loads the module has them. A
user's own packages, from `hpcmod add`, hide them. `user-software.json` says which file is the installation's: another
file is the user's, and is never replaced or removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.replacing import replacing, scratch
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree
from hpcmod.core.values.json_form import json_form
from hpcmod.images.integrity import file_sha256
from hpcmod.modules.user_layer import (
    DESCRIBED,
    DIRECTORY,
    PACKED,
    PackedPackages,
    has_additions,
    is_shipped,
    read_shipped,
)
from hpcmod.modules.values.place import SetChoice, state_file
from hpcmod.modules.values.plan import InstallPlan, with_own_packages
from hpcmod.packages.builder import make_builder
from hpcmod.packages.building import build_state
from hpcmod.packages.importing import read_requirements
from hpcmod.packages.sets import PackageSet, make_set
from hpcmod.packages.values.plan import PackageChange, PackageTarget, make_state_plan
from hpcmod.packages.values.requirement import NOTHING, Requirements, parse_file
from hpcmod.packages.values.state import State

_PARAMETER = "user_packages"
_PACKED_MODE = 0o444
_SCRATCH = "hpcmod-user-packages"


def parse_user_packages(given: object, easyconfig: Path) -> Requirements:
    """Return the requirements in an easyconfig: entries are lines of a requirements file next to it.

    Raises
    ------
    BadInputError
        If it is not a list of such lines.
    """
    if not given:
        return NOTHING
    if not isinstance(given, (list, tuple)) or not all(isinstance(line, str) and "\n" not in line for line in given):
        raise BadInputError(f"{_PARAMETER}: {given!r} is not a list of strings", "Write ['einops', 'transformers<5'].")
    path = str(easyconfig.absolute().with_name(_PARAMETER))
    text = "\n".join(given)
    found = parse_file(path, lambda one: text if one == path else read_requirements(one), os.path.exists)
    if not found.lines:
        raise BadInputError(f"{_PARAMETER} names no package", "Name one, or remove the parameter.")
    return found


def check_no_others(root: Path) -> None:
    """Check that an installation has no packages of the user, which those of the easyconfig would hide or replace.

    Raises
    ------
    BadInputError
        If it has.
    """
    packed, directory = root / PACKED, root / DIRECTORY
    others = packed if packed.exists() and not is_shipped(packed) else directory if directory.exists() else None
    if others is not None and has_additions(others):
        raise BadInputError(
            f"{_PARAMETER} would hide the packages in {others}, which are not from the easyconfig",
            f"Move them away, or remove {_PARAMETER} from the easyconfig.",
        )


def install_shipped(
    plan: InstallPlan,
    image: Path,
    sha256: str,
    wanted: Requirements,
    environ: Mapping[str, str],
    *,
    keep: bool,
    tell: Callable[[str], None],
) -> None:
    """Install the packages of an easyconfig next to its image, or remove those of an earlier installation.

    Parameters
    ----------
    image, sha256
        The installed image and its digest.
    keep
        Keep the packages if image and requirements are the same, without asking pip.

    Raises
    ------
    HpcmodError
        If the image has no Python, pip refuses them, or there is no space. Packages from before are kept then.
    """
    root = Path(plan.spec.root)
    clear_leftovers(root, PACKED)
    if not wanted.lines:
        for path in [one for one in (root / PACKED, root / DESCRIBED) if one.exists() and is_shipped(one)]:
            tell(f"removed, because the easyconfig has no {_PARAMETER} now: {path}")
            Tree(root).remove(path.name)
        return
    before = read_shipped(root) if (root / PACKED).exists() else None
    if keep and before and (before.image, before.requirements) == (sha256, _asked(wanted)):
        return
    target = _make_target(plan, image, sha256)
    builder = make_builder(environ)
    tell(f"installing with pip of {plan.spec.module}: {', '.join(wanted.lines)}")
    clear_leftovers(builder.temporary, _SCRATCH)
    with scratch(builder.temporary / _SCRATCH) as private:
        found = PackageSet(plan.spec.name, SetChoice(_PARAMETER), Path(os.path.realpath(private.directory), "set"))
        make_set(found, None)
        change = PackageChange(added=wanted, action=_PARAMETER)
        planned = make_state_plan(target, change, directory=str(found.directory), number=1, parent=None)
        state = build_state(planned, found, builder)
        _put(root, state, found.directory / state_file(state.number, state.tag), _asked(wanted))
    for one in state.locked:
        tell(f"installed {one.name} {one.version}")


def _asked(wanted: Requirements) -> tuple[str, ...]:
    return (*wanted.lines, *wanted.constraints, *wanted.options)


def _make_target(plan: InstallPlan, image: Path, sha256: str) -> PackageTarget:
    plan = with_own_packages(plan, sha256)
    if plan.user_layer is None or plan.own_packages is None:
        raise LackingError(
            f"the image of {plan.spec.module} has no Python, so it cannot have {_PARAMETER}",
            f"Remove {_PARAMETER} from {plan.spec.easyconfig}.",
        )
    return PackageTarget(
        module=plan.spec.module,
        sif=str(image),
        sha256=sha256,
        python=plan.user_layer.python,
        venv=plan.user_layer.venv,
        place=plan.own_packages,
        packages=plan.packages,
    )


def _put(root: Path, state: State, packed: Path, asked: tuple[str, ...]) -> None:
    """Put packed packages in place, and before them what describes both them and those that they replace."""
    described = PackedPackages(
        image=state.image,
        requirements=asked,
        packages=tuple((one.name, one.version) for one in state.locked),
        sha256=state.sha256,
        replaces=file_sha256(root / PACKED) if (root / PACKED).exists() else "",
    )
    tree = Tree(root)
    tree.write(DESCRIBED, f"{json.dumps(json_form(described), indent=1)}\n".encode())
    with (
        tree.parent(PACKED) as (place, name),
        replacing(Path(f"/proc/self/fd/{place}", name)) as partial,
        packed.open("rb") as source,
        partial.open("xb") as file,
    ):
        shutil.copyfileobj(source, file)
        os.fchmod(file.fileno(), _PACKED_MODE)
