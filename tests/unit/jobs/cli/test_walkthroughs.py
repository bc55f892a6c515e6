"""Each walk-through in docs/how-to does what its page says: golden files, and shellcheck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcmod.core.cli.main import main
from tests.walkthroughs import COMMANDS, GOLDEN, SITES, Command, blocks

SCRIPTS = [command for command in COMMANDS if command.golden.suffix == ".sh"]
each = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide Slurm and the runtime."""
    monkeypatch.setenv("PATH", str(tmp_path))


def printed(command: Command) -> str:
    dry = ["--dry-run"] if command.words[0] == "launch" else []
    words = [command.words[0], *dry, *command.words[1:]]
    done = CliRunner(env=command.environment).invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.stdout


@each
def test_the_command_prints_its_golden_file(command: Command, golden: Callable[[Path, str], None]) -> None:
    golden(command.golden, printed(command))


def test_each_golden_file_has_its_command() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {command.name for command in COMMANDS}


@pytest.mark.parametrize("page", SITES)
def test_lines_shown_on_a_page_are_in_the_scripts_of_its_commands(page: str) -> None:
    written = {line for command in COMMANDS if command.page == page for line in command.golden.read_text().splitlines()}
    written.add('eval "$staged"')
    shown = [line for block in blocks(page, "bash") for line in block.splitlines()]
    assert shown
    assert [line for line in shown if line not in written] == []


@pytest.mark.slow
def test_shellcheck_finds_nothing_in_any_of_them(shellcheck: Callable[..., str]) -> None:
    assert shellcheck(GOLDEN, [command.golden.name for command in SCRIPTS]) == ""
