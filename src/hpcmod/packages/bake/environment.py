"""Add an environment of conda to an image: its files at the prefix that they name, and a script that sets PATH."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.images import Sif, Squashfs
from hpcmod.images.squashfs.tree import Node
from hpcmod.packages.bake.image import BakedPackages
from hpcmod.packages.bake.packages import open_packages
from hpcmod.packages.bake.placement import find_directory, make_directory, overlay
from hpcmod.packages.bake.writing import Addition, AddText, NewFile, open_image, write_image

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


def write_environment(image: Path, environment: Environment, new: NewFile) -> tuple[BakedPackages, tuple[str, ...]]:
    """Write a new image that has an environment in addition.

    Returns
    -------
    baked
        The new image, without its Python.
    replaced
        Files of the image that the packages have too, and replace.

    Raises HpcmodError if the image is damaged, has a file in place of a directory, or there is no space.
    """
    with open_image(image) as source, open_packages(environment.directory) as files:
        prefix = source.squashfs.real_path(environment.prefix) or environment.prefix
        replaced = tuple(_find_replaced(source.tree.root, files.root, prefix))
        script = _render_script(source.squashfs, environment)

        def place(root: Node, add_text: AddText) -> None:
            overlay(make_directory(root, prefix), files.root)
            if script:
                make_directory(root, _SCRIPTS).children[_SCRIPT.encode()] = add_text(script.encode(), 0o755)

        addition = Addition(
            label=_LABEL,
            packages=environment.packages,
            prefix=environment.prefix,
            size=files.size,
            place=place,
            write_contents=files.write_contents,
            check=partial(_check, environment=environment),
        )
        provenance = write_image(source, addition, new)
        baked = BakedPackages(left_out=source.left_out, size=provenance.size, sha256=provenance.sha256)
        return baked, replaced


def _find_replaced(root: Node, added: Node, prefix: str) -> Iterator[str]:
    """Yield the files of an image that are replaced below a prefix; directories are merged."""
    try:
        top = find_directory(root, prefix)
    except BadInputError:
        return
    todo = [(top, added, prefix)]
    while todo:
        there, here, above = todo.pop()
        for name, node in sorted(here.children.items()):
            old = there.children.get(name)
            path = posixpath.join(above, name.decode(errors="replace"))
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


def _render_script(squashfs: Squashfs, environment: Environment) -> str:
    """Return the script that sets PATH; lines that the image has already are kept."""
    path = f"/{_SCRIPTS}/{_SCRIPT}"
    known = squashfs.text_of(path, _LONGEST_SCRIPT)
    lines = known.splitlines()
    new = []
    if environment.on_path:
        new.append(f'export PATH="{environment.prefix}/bin:$PATH"')
    if environment.on_path and environment.python:
        new += [f'export CONDA_PREFIX="{environment.prefix}"', "export VIRTUAL_ENV="]
    lines += [line for line in new if line not in lines]
    return "".join(f"{line}\n" for line in lines)


def _check(path: Path, *, environment: Environment) -> None:
    """Check that the new image has the packages, and the Python in its place."""
    python = Sif(path).facts().python
    with Sif(path).root() as squashfs:
        records = set(squashfs.listdir(f"{environment.prefix}/conda-meta"))
    missing = [name for name in environment.packages if f"{name}.json" not in records]
    wanted = (environment.prefix, environment.python)
    if environment.python and (python is None or (python.prefix, python.version) != wanted):
        missing.append(f"Python {environment.python} in {environment.prefix}")
    if missing:
        raise VerificationError(
            f"the written image lacks {', '.join(missing[:_MOST_TOLD])}",
            "This is a bug in hpcmod: please report it with your environment file.",
        )
