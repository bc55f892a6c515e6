"""The user's Jupyter kernels: install, list and remove those that run in containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.reading import read_text
from hpcmod.core.fs.removal import prune
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree
from hpcmod.core.registry import Dependent
from hpcmod.core.text.quote import sh_word
from hpcmod.notebooks.values.kernel import KernelSpec, parse_kernel, render_kernel

_FILE = "kernel.json"
_LIMIT = 1 << 20  # bytes


def kernels_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory of this user's kernels, as jupyter_core chooses it.

    Raises LackingError if no variable names the user's home directory.
    """
    below = {"JUPYTER_DATA_DIR": "kernels", "XDG_DATA_HOME": "jupyter/kernels", "HOME": ".local/share/jupyter/kernels"}
    for variable, path in below.items():
        if environ.get(variable):
            return Path(environ[variable]).absolute() / path
    raise LackingError("home directory unknown", "Set HOME, or JUPYTER_DATA_DIR.")


def find_kernels(directory: Path) -> Iterator[KernelSpec]:
    """Yield the kernels in a directory that hpcmod installed, sorted by name."""
    yield from filter(None, map(_read, sorted(directory.glob(f"*/{_FILE}"))))


def find_dependent_kernels(root: Path, environ: Mapping[str, str]) -> Iterator[Dependent]:
    """Yield the user's Jupyter kernels that run in an installation."""
    with suppress(LackingError, OSError):
        for kernel in find_kernels(kernels_directory(environ)):
            if kernel.root == str(root):
                removal = f"hpcmod kernel --remove --name {sh_word(kernel.name)}"
                yield Dependent("Jupyter kernel", kernel.name, removal)


def install_kernel(directory: Path, kernel: KernelSpec) -> Path:
    """Write a kernel specification, and return its directory.

    Raises BadInputError if a kernel of that name exists and hpcmod did not install it.
    """
    path = directory / kernel.name
    clear_leftovers(path, _FILE)
    is_new = not path.exists() or (path.is_dir() and not any(path.iterdir()))  # a killed run left it empty
    if not is_new and _read(path / _FILE) is None:
        raise BadInputError(
            f"{path} already exists and was not installed by hpcmod",
            f"Choose another name: hpcmod kernel {sh_word(kernel.module)} --name NAME",
        )
    directory.mkdir(parents=True, exist_ok=True)
    tree = Tree(directory)
    tree.make_directory(kernel.name)
    tree.write(f"{kernel.name}/{_FILE}", render_kernel(kernel))
    return path


def remove_kernel(directory: Path, kernel: KernelSpec) -> None:
    """Remove a kernel that hpcmod installed; other files in its directory are kept."""
    Tree(directory).remove(f"{kernel.name}/{_FILE}")
    prune(directory / kernel.name)


def _read(path: Path) -> KernelSpec | None:
    try:
        return parse_kernel(path.parent.name, read_text(path, _LIMIT, errors="replace"))
    except OSError:
        return None
