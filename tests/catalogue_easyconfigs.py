"""Install easyconfigs of the repository from a stand-in image, and load their modules."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.core.clock import now_text
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import ImageReference
from hpcmod.images import Sif
from hpcmod.modules.values.easyconfig_text import CONSTANTS
from hpcmod.modules.values.spec import parse_commands
from hpcmod.modules.values.static_values import read_static_values
from tests.corpus import make_sif, pack
from tests.integration.conftest import unpack
from tests.stack import CHECKOUT, EasyBuild, ModuleTool

SYNTAXES = {"lmod": "Lua", "envmodules": "Tcl"}
_FAKE = "#!/bin/sh\nexit 0\n"


@dataclass(frozen=True)
class Listed:
    """An easyconfig of the repository that installs an existing image."""

    path: Path
    values: Mapping[str, Any]

    @property
    def module(self) -> str:
        """Name of its module."""
        return f"{self.values['name']}/{self.values['version']}{self.values.get('versionsuffix', '')}"

    @property
    def reference(self) -> ImageReference:
        """Reference of its image."""
        return ImageReference.parse(self.values.get("image") or self.values["sources"][0])

    @property
    def programs(self) -> list[str]:
        """Programs that its wrappers start: names, or absolute paths in the image."""
        return [words[0] for _, words in parse_commands(self.values.get("wrapped_commands", []))]

    @property
    def commands(self) -> list[str]:
        """Commands that its module adds to PATH, as far as the easyconfig lists them."""
        return [name for name, _ in parse_commands(self.values.get("wrapped_commands", []))] or ["start-shell"]


def list_easyconfigs(names: Sequence[str] = ()) -> list[Listed]:
    """Return the easyconfigs that install an image, or only those whose file names start with one of `names`."""
    files = sorted((CHECKOUT / "easyconfigs").rglob("*.eb"))
    read = (Listed(path, read_static_values(path.read_text(), path.name, constants=CONSTANTS).known) for path in files)
    found = [one for one in read if one.values["easyblock"] == "ContainerModule"]
    return [one for one in found if not names or one.path.name.startswith(tuple(names))]


def make_stand_in(tiny_sif: Path, directory: Path, easyconfigs: Iterable[Listed]) -> Path:
    """Write an image that has every command of the easyconfigs; each succeeds, whatever its arguments."""
    root = unpack(tiny_sif, directory / "root")
    for part in ("opt", "usr/share", ".singularity.d"):  # most of the image's size, and its environment
        shutil.rmtree(root / part, ignore_errors=True)
    environment = root / ".singularity.d/env/10-docker2singularity.sh"  # as in a converted image
    environment.parent.mkdir(parents=True)
    environment.write_text('export PATH="/usr/local/bin:/usr/bin:/bin"\n')
    for program in {program for one in easyconfigs for program in one.programs} | {"python3.12", "pip"}:
        write_fake(root / (program[1:] if program.startswith("/") else f"usr/local/bin/{program}"))
    for name in ("python", "python3"):
        (root / "usr/local/bin" / name).unlink(missing_ok=True)
        (root / "usr/local/bin" / name).symlink_to("python3.12")
    body = pack(root, directory / "body", "-noI", "-noD", "-noF", "-noX").read_bytes()
    return make_sif(directory / "stand-in.sif", body)


def write_fake(path: Path) -> None:
    """Write a program that does nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_FAKE)
    path.chmod(0o755)


def place_images(easyconfigs: Iterable[Listed], stand_in: Path, central: Path) -> None:
    """Put the stand-in where each easyconfig looks for its image, with provenance as if it was fetched by its
    digest.
    """
    sha256, size = hashlib.sha256(stand_in.read_bytes()).hexdigest(), stand_in.stat().st_size
    for one in easyconfigs:
        reference = one.reference
        link = central / (reference.path if reference.kind == "path" else reference.file_name)
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            continue
        link.symlink_to(stand_in)
        if reference.pinned:
            known = Provenance(reference.canonical, reference.digest, sha256, size, now_text(), "tests: a stand-in")
            Sif(link).write_provenance(known, None)


def failures(eb: EasyBuild, easyconfigs: Sequence[Listed]) -> list[str]:
    """Install them in one run, and load each module; return the failures, one line per module."""
    done = eb(*(one.path for one in easyconfigs))
    if done.returncode:
        return [done.stdout[-4000:]]
    tool = ModuleTool(eb.stack, eb.top, eb.modules_tool)
    said = tool("\n".join(map(_check, easyconfigs)), eb.modules)
    return said.stdout.splitlines() + ([said.stderr] if said.stderr.strip() else [])


def _check(one: Listed) -> str:
    """Return bash that loads a module, and prints an error unless its commands are the first on PATH."""
    ours = " && ".join(f'[ "$(command -v {name})" = "$CONTAINERROOT/bin/{name}" ]' for name in one.commands)
    return f"(module load {one.module} && [ -f $SIF ] && {ours}) || echo 'failed: {one.module}'"
