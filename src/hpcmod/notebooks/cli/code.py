"""The command `hpcmod code`: let Visual Studio Code run and debug Python in a container."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.catalogue import container_argument, find_ready, look_around
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import json_option, print_data, print_json, print_text, tell
from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.reading import read_text
from hpcmod.core.fs.tree import Tree
from hpcmod.notebooks.values.vscode import (
    FOLDER,
    MARK,
    PROGRAM,
    Merged,
    merge_launch,
    merge_settings,
    render_python,
)

_LIMIT = 4 << 20  # bytes read of a file


@dataclass(frozen=True)
class CodeSettings:
    """Settings of Visual Studio Code for a container."""

    dry_run: bool
    module: str
    directory: Path
    written: tuple[Path, ...]
    """Files that were missing or different."""
    kept: tuple[str, ...]
    """Your own values that were kept: file and key."""


@click.command("code")
@container_argument
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="Folder that you open in VS Code (default: this one).",
)
@click.option("--dry-run", is_flag=True, help="Print the files that would be written; write nothing.")
@site_option
@json_option(CodeSettings)
def code_verb(container: str, directory: Path, dry_run: bool, site: str | None, as_json: bool) -> None:
    """Let Visual Studio Code run and debug Python in a container.

    Writes an interpreter, settings and a debug configuration into `.vscode` of the folder. Your own settings there are
    kept.

    \b
    Examples:
      hpcmod code PyTorch
      hpcmod code PyTorch/2.7.1 --directory ~/project
    """
    here = look_around(site)
    installed = find_ready(here, container)
    installed.check_program()
    folder = directory.absolute() / FOLDER
    program = render_python(str(installed.program), installed.module)
    files = {
        "settings.json": merge_settings(*_read(folder / "settings.json")),
        "launch.json": merge_launch(*_read(folder / "launch.json")),
        PROGRAM: _make_program(folder / PROGRAM, program),
    }
    written = {name: file for name, file in files.items() if file.changed}
    if not dry_run:
        _write(folder, written)
    kept = tuple(f"{name}: {key}" for name, file in files.items() for key in file.kept)
    if as_json:
        paths = tuple(folder / name for name in written)
        print_json(CodeSettings(dry_run, installed.module, folder, paths, kept))
        return
    for name, file in written.items():
        print_text(folder / name)
        if dry_run:
            print_data(file.text)
    for text in kept:
        tell(f"kept your own value: {folder}/{text}")
    tell(f"VS Code {'would run' if dry_run else 'runs'} the Python of {installed.module} in {folder.parent}")


def _read(path: Path) -> tuple[str | None, str]:
    """Return the content of a file, None if it does not exist, and its path for errors."""
    try:
        return read_text(path, _LIMIT), str(path)
    except FileNotFoundError:
        return None, str(path)


def _make_program(path: Path, text: str) -> Merged:
    before, _ = _read(path)
    if before is not None and MARK not in before:
        raise BadInputError(f"{path} exists and was not written by `hpcmod code`", "Move it away.")
    return Merged(text, changed=before != text or not os.access(path, os.X_OK))


def _write(folder: Path, files: dict[str, Merged]) -> None:
    tree = Tree(folder.parent)
    tree.make_directory(FOLDER)
    for name, file in files.items():
        tree.write(f"{FOLDER}/{name}", file.text, mode=0o755 if name == PROGRAM else 0o644)
