"""Place a user's packages in the tree of an image, so that its Python finds them however it is started.

A module binds a directory of its own over /user-software, which hides what an image has there. So the packages have
two names: /user-software, for anything that refers to the paths where they were installed, and a directory of
/opt/hpcmod-packages, which a .pth file of the image's Python puts in front of the image's own packages, as a virtual
environment would. Commands are added next to the image's Python unless it has one of the same name.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import PythonFacts
from hpcmod.images.inspect.contents import BAKED_IN_CONTAINER
from hpcmod.images.squashfs.tree import Node
from hpcmod.packages.bake.packages import PackageTree, Venv, directory_in
from hpcmod.packages.bake.writing import AddText

USER_SOFTWARE = "/user-software"

_STARTER = "_hpcmod_packages"
_LONGEST_SCRIPT = 1 << 20
_OF_VENV = re.compile(rb"(python|pip|activate|Activate)[0-9.]*(\..*)?")
OF_EMPTY_VENV = (b"image.pth",)
"""Files of site-packages that only a virtual environment needs; this one would add the image's packages again."""

_START = f'''\
"""Find the packages that `hpcmod bake` added to this image; _hpcmod_packages.pth imports this when Python starts."""

import os
import site
import sys

_PLACE = "{BAKED_IN_CONTAINER}"


def _add(place):
    """Add the newest packages first, in front of the image's own."""
    here = os.path.dirname(os.path.abspath(__file__))
    before = len(sys.path)
    for number in sorted((name for name in os.listdir(place) if name.isdigit()), key=int, reverse=True):
        version = "python%d.%d" % sys.version_info[:2]
        site.addsitedir(os.path.join(place, number, "lib", version, "site-packages"))
    added = sys.path[before:]
    del sys.path[before:]
    at = sys.path.index(here) if here in sys.path else len(sys.path)
    sys.path[at:at] = added


if os.path.isdir(_PLACE):
    _add(_PLACE)
'''


@dataclass(frozen=True)
class Target:
    """Where packages go in an image; all paths have their links resolved."""

    python: PythonFacts
    site: str
    """The first directory of the image's own packages."""
    commands: str
    """Directory of the image's Python."""
    number: int
    """Number of the new directory in BAKED_IN_CONTAINER, from 1."""

    @property
    def prefix(self) -> str:
        """Return the prefix of the new packages."""
        return f"{BAKED_IN_CONTAINER}/{self.number}"


def find_new_commands(root: Node, venv: Venv, target: Target) -> dict[bytes, Node]:
    """Return the commands of a virtual environment that the image does not have."""
    existing = find_directory(root, target.commands).children
    programs = directory_in(venv.root, b"bin")
    commands = programs.children.items() if programs is not None else ()
    return {
        name: node
        for name, node in sorted(commands)
        if node.kind == "file" and node.mode & 0o111 and name not in existing and not _OF_VENV.fullmatch(name)
    }


def place_packages(root: Node, add_text: AddText, *, packages: PackageTree, venv: Venv, target: Target) -> None:
    """Add packages to the tree of an image.

    `root`: The image's root directory.
    `add_text`: Makes the nodes of files that are not among the packages.
    """
    commands = find_new_commands(root, venv, target)
    overlay(make_directory(root, USER_SOFTWARE), packages.root)
    below = f"{target.prefix}/lib/python{venv.python}/site-packages"
    overlay(make_directory(root, below), venv.site, without=OF_EMPTY_VENV)
    site = find_directory(root, target.site)
    site.children[f"{_STARTER}.py".encode()] = add_text(_START.encode(), 0o644)
    site.children[f"{_STARTER}.pth".encode()] = add_text(f"import {_STARTER}\n".encode(), 0o644)
    own = re.compile(re.escape(f"{USER_SOFTWARE}/venv/{venv.name}/bin/python".encode()) + rb"[0-9.]*")
    for name, node in commands.items():
        script = _find_script(packages, node, own)
        if script:
            changed = own.sub(target.python.executable.encode(), script, count=1)
            node = add_text(changed, node.mode)
        find_directory(root, target.commands).children[name] = node


def _find_script(packages: PackageTree, node: Node, python: re.Pattern[bytes]) -> bytes:
    """Return the text of a Python script that names its interpreter in the first two lines; empty for other files."""
    if node.data is None or node.data.size > _LONGEST_SCRIPT:
        return b""
    content = packages.read(node, _LONGEST_SCRIPT)
    head = b"\n".join(content.split(b"\n", 2)[:2])
    return content if content.startswith(b"#!") and python.search(head) else b""


def find_directory(root: Node, path: str) -> Node:
    """Return the directory at a path without links.

    Raises BadInputError if there is none.
    """
    directory = root
    for name in filter(None, path.split("/")):
        inner = directory_in(directory, name.encode("utf-8", "surrogateescape"))
        if inner is None:
            raise BadInputError(f"the image has no directory {path}")
        directory = inner
    return directory


def make_directory(root: Node, path: str) -> Node:
    """Return the directory at a path without links, created if it is missing.

    Raises BadInputError if the path, or a directory above it, is something else.
    """
    directory = root
    for name in filter(None, path.split("/")):
        inner = directory.children.setdefault(name.encode(), Node("dir", 0o755, mtime=directory.mtime))
        if inner.kind != "dir":
            at = posixpath.join("/", path)
            raise BadInputError(f"the image has a {inner.kind} in place of the directory {at}")
        directory = inner
    return directory


def overlay(target: Node, source: Node, *, without: tuple[bytes, ...] = ()) -> None:
    """Hard-link everything in a directory into another; files replace those of the same name, directories merge."""
    todo = [(target, source)]
    while todo:
        there, here = todo.pop()
        there.mtime = here.mtime
        for name, node in here.children.items():
            if name in without and here is source:
                continue
            if node.kind != "dir":
                there.children[name] = node
                continue
            old = directory_in(there, name)
            if old is None:
                old = there.children[name] = Node("dir", node.mode, mtime=node.mtime)
            todo.append((old, node))
