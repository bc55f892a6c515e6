"""The user's own packages on top of an image: a virtual environment created from files, without starting the image.

It equals the result of `python -m venv --system-site-packages`, plus a .pth file that adds the image's own packages,
because a virtual environment based on another one does not see them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree
from hpcmod.core.values.facts import PythonFacts
from hpcmod.core.values.json_form import parse_json
from hpcmod.modules.values.install_record import DESCRIBED, PACKED, USER_SOFTWARE
from hpcmod.modules.values.place import USER_LAYER_IN_CONTAINER, PackedPackages
from hpcmod.modules.values.plan import UserLayer

_LARGEST = 16 << 20  # bytes of that description

_ENVIRONMENTS = "venv"

_PIP = """#!{venv}/bin/python
import sys
from pip._internal.cli.main import main
sys.exit(main())
"""

_ACTIVATE = """# Source this in bash or sh, in the container: . {venv}/bin/activate
deactivate() {{
    if [ "${{_OLD_VIRTUAL_PATH+set}}" ]; then PATH=$_OLD_VIRTUAL_PATH; export PATH; unset _OLD_VIRTUAL_PATH; fi
    if [ "${{_OLD_VIRTUAL_PYTHONHOME+set}}" ]; then
        PYTHONHOME=$_OLD_VIRTUAL_PYTHONHOME; export PYTHONHOME; unset _OLD_VIRTUAL_PYTHONHOME
    fi
    hash -r
    if [ "${{_OLD_VIRTUAL_PS1+set}}" ]; then PS1=$_OLD_VIRTUAL_PS1; export PS1; unset _OLD_VIRTUAL_PS1; fi
    unset VIRTUAL_ENV VIRTUAL_ENV_PROMPT
    if [ "${{1-}}" != nondestructive ]; then unset -f deactivate; fi
}}
deactivate nondestructive
VIRTUAL_ENV={venv}
export VIRTUAL_ENV
_OLD_VIRTUAL_PATH=$PATH
PATH=$VIRTUAL_ENV/bin:$PATH
export PATH
if [ "${{PYTHONHOME:-}}" ]; then _OLD_VIRTUAL_PYTHONHOME=$PYTHONHOME; unset PYTHONHOME; fi
if [ ! "${{VIRTUAL_ENV_DISABLE_PROMPT:-}}" ]; then
    VIRTUAL_ENV_PROMPT=${{VIRTUAL_ENV##*/}}
    export VIRTUAL_ENV_PROMPT
    _OLD_VIRTUAL_PS1=${{PS1:-}}
    PS1="($VIRTUAL_ENV_PROMPT) ${{PS1:-}}"
    export PS1
fi
hash -r
"""
"""The parts of Python's own script of this name that scripts rely on. Paths in the container need no quotes."""


def make(layer: UserLayer) -> None:
    """Create the virtual environment, unless the user already has one, packed or not.

    Raises OSError (ELOOP if a directory of the installation that leads to it is a symbolic link: where others may write
    the installation, the link could lead into the home directory of this user).
    """
    root = Path(layer.directory).parent
    venv = Path(USER_SOFTWARE, Path(layer.venv).relative_to(USER_LAYER_IN_CONTAINER))
    _create(Tree(root), root / venv, partial(write_venv, layer.python, layer.venv))


def copy(source: Path, tree: Tree, target: Path) -> None:
    """Copy the virtual environments of an installation to another, unless users have their own there.

    `source`: The root of the installation, in a directory that no other user can write to.
    `tree`: Where the other installation is.
    `target`: Its root.

    Raises OSError as `make`.
    """
    for venv in (source / USER_SOFTWARE / _ENVIRONMENTS).glob("*"):
        fill = partial(shutil.copytree, venv, symlinks=True, dirs_exist_ok=True)
        _create(tree, target / USER_SOFTWARE / _ENVIRONMENTS / venv.name, fill)


def _create(tree: Tree, venv: Path, fill: Callable[[Path], object]) -> None:
    if venv.exists() or venv.parents[1].with_suffix(".squashfs").exists():
        return
    tree.make_directory(venv.parent)
    with tree.parent(venv) as (place, name):
        final = Path(f"/proc/self/fd/{place}", name)
        clear_leftovers(final.parent, name)
        with replacing_directory(final) as new:
            fill(new)


def write_venv(python: PythonFacts, inside: str, venv: Path) -> None:
    """Write a virtual environment without packages into a directory.

    `inside`: Its path in the container.
    """
    version = python.version
    packages = venv / "lib" / f"python{version}" / "site-packages"
    packages.mkdir(parents=True)
    (venv / "lib64").symlink_to("lib")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(python.executable)
    for name in ("python3", f"python{version}"):
        (venv / "bin" / name).symlink_to("python")
    for name in ("pip", "pip3"):
        script = venv / "bin" / name
        script.write_text(_PIP.format(venv=inside))
        script.chmod(0o755)
    (venv / "bin" / "activate").write_text(_ACTIVATE.format(venv=inside))
    home = Path(python.executable).parent
    (venv / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = true\nversion = {version}\n")
    image_packages = f"{python.prefix}/lib/python{version}/site-packages"
    (packages / "image.pth").write_text(f"import site; site.addsitedir({image_packages!r})\n")


_WRITTEN = re.compile(
    r"venv/[^/]+/(?:pyvenv\.cfg|lib64|bin/(?:activate|python[\d.]*|pip3?)|lib/python[\d.]+/site-packages/image\.pth)"
)
"""Files of a virtual environment to which nothing was added, relative to the directory of the packages."""


def has_additions(path: Path) -> bool:
    """Return whether the user added anything to a directory that `make` filled; True for a file."""
    if not path.is_dir() or path.is_symlink():
        return True
    files = (Path(directory, name).relative_to(path) for directory, _, names in os.walk(path) for name in names)
    return any(not _WRITTEN.fullmatch(str(file)) for file in files)


def read_shipped(root: Path) -> PackedPackages | None:
    """Return what describes the packed packages of an installation; None if it has none, or it is damaged."""
    try:
        return parse_json(PackedPackages, read_file(root / DESCRIBED, _LARGEST), DESCRIBED, limit=_LARGEST)
    except (OSError, BadInputError):
        return None


def is_shipped(path: Path) -> bool:
    """Return whether a file in the root of an installation is the installation's packed packages, or describes them."""
    known = read_shipped(path.parent)
    if known is None or path.name not in (PACKED, DESCRIBED) or path.is_symlink():
        return False
    packed = path.parent / PACKED
    return not packed.exists() or file_sha256(packed) in (known.sha256, known.replaces)
