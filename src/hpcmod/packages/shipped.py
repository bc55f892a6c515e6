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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.replacing import replacing
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree
from hpcmod.core.values.json_form import json_form
from hpcmod.modules import has_additions, is_shipped, read_shipped
from hpcmod.modules.values.install_record import DESCRIBED, PACKED, USER_SOFTWARE, InstalledImage
from hpcmod.modules.values.place import PackedPackages, state_file
from hpcmod.modules.values.plan import InstallPlan, with_own_packages
from hpcmod.packages.builder import make_builder
from hpcmod.packages.building import build_state
from hpcmod.packages.importing import read_requirements
from hpcmod.packages.sets import temporary_set
from hpcmod.packages.values.plan import PackageChange, PackageTarget, make_state_plan
from hpcmod.packages.values.requirement import NOTHING, Requirements, parse_file
from hpcmod.packages.values.state import State

_PARAMETER = "user_packages"
_PACKED_MODE = 0o444


@dataclass(frozen=True)
class ShippedPackages:
    """Packages that an easyconfig names, or none."""

    wanted: Requirements

    @classmethod
    def of(cls, parameters: Mapping[str, Any], easyconfig: Path) -> ShippedPackages:
        """Read the parameter of an easyconfig: entries are lines of a requirements file next to it.

        Raises BadInputError if it is not a list of such lines.
        """
        given = parameters[_PARAMETER]
        if not given:
            return cls(NOTHING)
        lines = given if isinstance(given, (list, tuple)) else [None]
        if not all(isinstance(line, str) and "\n" not in line for line in lines):
            cure = "Write ['einops', 'transformers<5']."
            raise BadInputError(f"{_PARAMETER}: {given!r} is not a list of strings", cure)
        path = str(easyconfig.absolute().with_name(_PARAMETER))
        text = "\n".join(given)
        wanted = parse_file(path, lambda name: text if name == path else read_requirements(name), os.path.exists)
        if not wanted.lines:
            raise BadInputError(f"{_PARAMETER} names no package", "Name one, or remove the parameter.")
        return cls(wanted)

    def lines(self) -> list[str]:
        """Return the lines of a dry run."""
        return [f"user package: {line}" for line in self.wanted.lines]

    def check(self, root: Path) -> None:
        """Check that an installation has no packages of the user, which those of the easyconfig would hide or replace.

        Raises BadInputError if it has.
        """
        packed, directory = root / PACKED, root / USER_SOFTWARE
        others = directory if not packed.exists() or is_shipped(packed) else packed
        if self.wanted.lines and others.exists() and has_additions(others):
            raise BadInputError(
                f"{_PARAMETER} would hide the packages in {others}, which are not from the easyconfig",
                f"Move them away, or remove {_PARAMETER} from the easyconfig.",
            )

    def install(
        self, plan: InstallPlan, image: InstalledImage, environ: Mapping[str, str], tell: Callable[[str], None]
    ) -> None:
        """Install the packages next to the image, or remove those of an earlier installation.

        `hpcmod update` keeps the packages if image and requirements are the same, without asking pip.

        Raises HpcmodError if the image has no Python, pip refuses them, or there is no space; packages from before are
        kept then.
        """
        root = Path(plan.spec.root)
        clear_leftovers(root, PACKED)
        if not self.wanted.lines:
            for path in [path for path in (root / PACKED, root / DESCRIBED) if path.exists() and is_shipped(path)]:
                tell(f"removed, because the easyconfig has no {_PARAMETER} now: {path}")
                Tree(root).remove(path.name)
            return
        asked = (*self.wanted.lines, *self.wanted.constraints, *self.wanted.options)
        before = read_shipped(root) if (root / PACKED).exists() else None
        if "HPCMOD_UPDATE" in environ and before and (before.image, before.requirements) == (image.sha256, asked):
            return
        target = _make_target(plan, image)
        builder = make_builder(environ)
        tell(f"installing with pip of {plan.spec.module}: {', '.join(self.wanted.lines)}")
        with temporary_set(builder.temporary) as made:
            change = PackageChange(added=self.wanted, action=_PARAMETER)
            planned = make_state_plan(target, change, number=1, parent=None)
            state = build_state(planned, made, builder)
            _put(root, state, made.directory / state_file(state.number, state.tag), asked)
        for package in state.locked:
            tell(f"installed {package.name} {package.version}")


def _make_target(plan: InstallPlan, image: InstalledImage) -> PackageTarget:
    plan = with_own_packages(plan, image.sha256)
    if plan.user_layer is None or plan.own_packages is None:
        raise LackingError(
            f"the image of {plan.spec.module} has no Python, so it cannot have {_PARAMETER}",
            f"Remove {_PARAMETER} from {plan.spec.easyconfig}.",
        )
    return PackageTarget(
        module=plan.spec.module,
        sif=image.path,
        sha256=image.sha256,
        python=plan.user_layer.python,
        venv=plan.user_layer.venv,
        place=plan.own_packages,
        packages=plan.packages,
    )


def _put(root: Path, state: State, packed: Path, asked: tuple[str, ...]) -> None:
    """Put packed packages in place, and before them what describes both them and those that they replace."""
    described = PackedPackages(
        image=state.origin.image,
        requirements=asked,
        packages=tuple((package.name, package.version) for package in state.locked),
        sha256=state.sha256,
        replaces=file_sha256(root / PACKED) if (root / PACKED).exists() else "",
    )
    tree = Tree(root)
    tree.write(DESCRIBED, f"{json.dumps(json_form(described), indent=1)}\n".encode())
    with (
        tree.parent(PACKED) as (descriptor, name),
        replacing(Path(f"/proc/self/fd/{descriptor}", name)) as partial,
        packed.open("rb") as source,
        partial.open("xb") as file,
    ):
        shutil.copyfileobj(source, file)
        os.fchmod(file.fileno(), _PACKED_MODE)
