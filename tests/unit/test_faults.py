"""Every command is tested with fault injection, or listed as changing nothing."""

from __future__ import annotations

import re
from pathlib import Path

import click

from hpcmod.core.registry import ROOMS
from tests.calls import all_commands
from tests.faults.scenes import NOT_TRIED, SCENES

CHECKOUT = Path(__file__).resolve().parents[2]


def test_each_command_that_changes_something_is_tried_with_faults() -> None:
    tried = {" ".join(words) for scene in SCENES.values() for words in (scene.words[:count] for count in (1, 2, 3))}
    commands = {line for line, command in all_commands() if not isinstance(command, click.Group)}
    # add a scene for each new command to tests/faults/scenes.py
    others = {command for room in ROOMS for command in NOT_TRIED.get(room, ())}
    assert commands - tried - others == set()
    assert others - commands == set()


def test_the_page_names_each_file_that_looks_at_the_number_of_an_error() -> None:
    """In all other files, a fault has the same effect whatever its error number."""
    looks = re.compile(r"errno\.(EIO|ENOSPC|EDQUOT|ESTALE)\b|\bFULL\b|Errno ")
    sources = CHECKOUT / "src/hpcmod"
    found = {str(path.relative_to(sources)) for path in sources.rglob("*.py") if looks.search(path.read_text())}
    page = (CHECKOUT / "docs/explanation/interrupted.md").read_text()
    rows = page.partition("| source file |")[2].partition("\n\n")[0].splitlines()
    assert {name for row in rows for name in re.findall(r"`([\w/]+\.py)`", row)} == found
