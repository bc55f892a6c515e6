"""Add an environment of conda to an image: its files at the prefix that they name, and a script that sets PATH."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcmod.errors import BadInputError, VerificationError
from hpcmod.image.bake.packages import PackageTree, open_packages
from hpcmod.image.bake.placement import find_directory, make_directory, overlay
from hpcmod.image.bake.writing import Addition, AddText, NewFile, SourceImage, Written, open_image, write_image
from hpcmod.image.inspect.contents import read_facts
from hpcmod.image.integrity import Progress
from hpcmod.image.sif.reader import open_sif, read_sif, squashfs_partition
from hpcmod.image.squashfs.reader import Squashfs
from hpcmod.image.squashfs.tree import Node

_LABEL = "org.hpcmod.conda"
_SCRIPTS = ".singularity.d/env"
_SCRIPT = "93-hpcmod-conda.sh"  # after the image's own variables (90-environment.sh), before the user's (99-...)
_LONGEST_SCRIPT = 1 << 20
_MOST_TOLD = 5


@dataclass(frozen=True)
class Environment:
    """Files of conda packages to add to an image."""

    directory: Path
    """Where they are."""
    prefix: str
    """Where they belong in the image, which is the path that they name."""
    packages: tuple[str, ...]
    """Packages, as NAME-VERSION-BUILD."""
    python: str = ""
    """Version of the image's Python afterwards if it is in this prefix; empty if it is elsewhere, or there is none."""
    on_path: bool = False
    """Whether the image must be told to look for programs in the prefix."""
    variables: tuple[tuple[str, str], ...] = ()
    """Further variables of the image."""


@dataclass(frozen=True)
class WrittenEnvironment:
    """A new image with an environment."""

    written: Written
    replaced: tuple[str, ...]
    """Files of the image that the packages have too, and replace."""
    left_out: tuple[str, ...]
    """Parts of the image that are left out of the new SIF: its signatures."""


def write_environment(
    image: Path, environment: Environment, new: NewFile, progress: Progress | None = None
) -> WrittenEnvironment:
    """Write a new image that has an environment in addition.

    Raises
    ------
    HpcmodError
        If the image is damaged, has a file in place of a directory, or there is no space.
    """
    with _placed(image, environment) as placed:
        written = write_image(placed.image, placed.addition, new, progress)
        return WrittenEnvironment(written, placed.replaced, placed.image.left_out)


def _quote(value: str) -> str:
    """Quote in double quotes: Apptainer adds a backslash before a single quote that another quote encloses."""
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


@contextmanager
def _placed(image: Path, environment: Environment) -> Iterator[_Placed]:
    with open_image(image) as source, open_packages(environment.directory) as files:
        yield _Placed(source, files, environment)


class _Placed:
    """An environment whose files and image are open."""

    def __init__(self, image: SourceImage, files: PackageTree, environment: Environment) -> None:
        self.image, self._files, self._environment = image, files, environment
        self._prefix = image.squashfs.real_path(environment.prefix) or environment.prefix
        self.replaced = tuple(self._find_replaced())

    @property
    def addition(self) -> Addition:
        """Return what is added to the image."""
        named = " ".join(self._environment.packages)
        return Addition(
            label=_LABEL,
            labels={"packages": named, "prefix": self._environment.prefix},
            identity=f"{self._environment.prefix} {named} {self._environment.variables} {self._files.size}",
            bytes=self._files.size + (1 << 20),
            place=self._place,
            write_contents=self._files.write_contents,
            check=self._check,
        )

    def _find_replaced(self) -> Iterator[str]:
        """Yield the files of the image that are replaced; directories are merged.

        Raises
        ------
        BadInputError
            If the image has a directory where the packages have a file, or the reverse.
        """
        try:
            top = find_directory(self.image.tree.root, self._prefix)
        except BadInputError:
            return
        todo = [(top, self._files.root, self._prefix)]
        while todo:
            there, here, place = todo.pop()
            for name, node in sorted(here.children.items()):
                old = there.children.get(name)
                path = posixpath.join(place, name.decode(errors="replace"))
                if old is None:
                    continue
                if "dir" not in (old.kind, node.kind):
                    yield path
                elif old.kind != node.kind:
                    raise BadInputError(
                        f"the image has a {old.kind} at {path}, where a conda package has a {node.kind}",
                        "Choose another build of the package, or another base.",
                    )
                else:
                    todo.append((old, node, path))

    def _place(self, root: Node, add_text: AddText) -> None:
        overlay(make_directory(root, self._prefix), self._files.root)
        script = self._render_script()
        if script:
            place = make_directory(root, _SCRIPTS)
            place.children[_SCRIPT.encode()] = add_text(_SCRIPT, script.encode(), 0o755)

    def _render_script(self) -> str:
        """Return the script that sets the variables; lines that the image has already are kept."""
        squashfs, wanted = self.image.squashfs, self._environment
        path = f"/{_SCRIPTS}/{_SCRIPT}"
        known = squashfs.read_bytes(path, _LONGEST_SCRIPT).decode(errors="replace") if squashfs.find(path) else ""
        lines = []
        if wanted.on_path:
            lines.append(f'export PATH="{wanted.prefix}/bin:$PATH"')
        if wanted.on_path and wanted.python:
            lines += [f'export CONDA_PREFIX="{wanted.prefix}"', "export VIRTUAL_ENV="]
        lines += [f"export {name}={_quote(value)}" for name, value in wanted.variables]
        old = known.splitlines()
        return "".join(f"{line}\n" for line in (*old, *(line for line in lines if line not in old)))

    def _check(self, path: Path) -> None:
        """Check that the new image has the packages, and the Python in its place."""
        found = read_facts(path).python
        sif = read_sif(path)
        partition = squashfs_partition(sif)
        with open_sif(sif.path) as file:
            squashfs = Squashfs(file, partition.offset, partition.size)
            records = set(squashfs.listdir(f"{self._environment.prefix}/conda-meta"))
        missing = [one for one in self._environment.packages if f"{one}.json" not in records]
        wanted = self._environment.python
        if wanted and (found is None or (found.prefix, found.version) != (self._environment.prefix, wanted)):
            missing.append(f"Python {wanted} in {self._environment.prefix}")
        if missing:
            raise VerificationError(
                f"the written image lacks {', '.join(missing[:_MOST_TOLD])}",
                "This is a bug in hpcmod: please report it with your environment file.",
            )
