"""Every command is in the fault injection, or listed as one that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import click

from hpcmod.cli.main import main
from tests.faults.scenes import CHANGES_NOTHING, NEEDS_A_JOB, RUNS_A_PROGRAM, SCENES
from tests.verbs import verbs_of


def commands_of(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in verbs_of(group).items():
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_each_command_that_changes_something_is_tried_with_faults() -> None:
    assert isinstance(main, click.Group)
    tried = {" ".join(words) for scene in SCENES.values() for words in (scene.words[:1], scene.words[:2])}
    commands = set(commands_of(main))
    # a new command gets a scene in tests/faults/scenes.py
    others = CHANGES_NOTHING | NEEDS_A_JOB | RUNS_A_PROGRAM
    assert commands - tried - others == set()
    assert others - commands == set()
