from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner, Result

from hpcmod.core.cli.groups import CommandGroup
from hpcmod.core.cli.main import main
from hpcmod.core.cli.reference.commands import every_command, names_of, options_of, verbs_of
from hpcmod.core.cli.verbs import DESTRUCTIVE, FIRST
from hpcmod.core.registry import known_words


def hpcmod(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line), prog_name="hpcmod")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("list", "unknown command: list. To list containers: hpcmod ls"),
        ("list torch", "unknown command: list. To list containers: hpcmod ls torch"),
        ("uninstall", "unknown command: uninstall. To remove an installation: hpcmod remove NAME"),
        ("rm 'a b'", "unknown command: rm. To remove an installation: hpcmod remove 'a b'"),
        ("rm -rf PyTorch", "unknown command: rm. To remove an installation: hpcmod remove NAME"),
        ("export x", "unknown command: export. To pack easyconfigs and images for an offline machine: hpcmod bundle"),
        ("load PyTorch", "unknown command: load. To load a container into your shell: module load PyTorch"),
        ("binds --explain", "unknown command: binds. Use: hpcmod site binds --explain"),
        ("site-show lumi", "unknown command: site-show. Use: hpcmod site show lumi"),
        ("cache list", "unknown command: cache list. Use: hpcmod cache ls"),
        ("site list", "unknown command: site list. Use: hpcmod site ls"),
        ("cache clean", "unknown command: cache clean. To clean the cache of downloads: hpcmod cache gc"),
        ("isntall", "unknown command: isntall. Did you mean: hpcmod install"),
        ("uplaod", "unknown command: uplaod. Did you mean: module unload NAME"),
        ("lits", "unknown command: lits. Did you mean: hpcmod ls"),
        ("promot PyTorch", "unknown command: promot. Did you mean: hpcmod catalogue promote"),
        ("site shwo", "unknown command: site shwo. Did you mean: hpcmod site show"),
        ("xyzzy", "unknown command: xyzzy. See: hpcmod --help"),
        ("site xyzzy", "unknown command: site xyzzy. See: hpcmod site --help"),
        ("help xyzzy", "unknown command: xyzzy. See: hpcmod --help"),
    ],
)
def test_a_word_that_is_not_a_command_is_answered_with_the_right_one(line: str, said: str) -> None:
    done = hpcmod(line)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"hpcmod: {said}\n")


@pytest.mark.parametrize("word", ["removee", "uninstal", "delte", "drp", "undoo", "cache gcc", "deprecat", "retir"])
def test_no_command_that_destroys_is_suggested_for_a_misspelled_word(word: str) -> None:
    said = hpcmod(word).stderr
    assert not DESTRUCTIVE & set(said.partition(". ")[2].split()), said


def test_each_answer_is_a_command_with_the_options_that_it_has() -> None:
    commands = dict(every_command())
    for word, (_, line) in known_words().items():
        program, *words = line.replace("{", "").replace("}", "").split()
        if program == "hpcmod":
            path = tuple(words[: 1 + (tuple(words[:2]) in commands)] if not words[0].startswith("-") else [])
            options = {name for option in options_of(commands[path]) for name in names_of(option)} | {"--help"}
            assert {name for name in words if name.startswith("--")} <= options, word


def test_no_word_of_the_table_is_a_command() -> None:
    commands = {" ".join(path) for path, _ in every_command()}
    assert {word for word in known_words() if word in commands} == set()


def test_every_group_answers_unknown_words() -> None:
    groups = {" ".join(path): command for path, command in every_command() if isinstance(command, click.Group)}
    assert "site netstack" in groups
    assert [name for name, group in groups.items() if not isinstance(group, CommandGroup)] == []


@pytest.mark.parametrize("path", ["", "ls", "site", "site show", "cache gc", "exec"])
def test_help_is_a_word_too(path: str) -> None:
    asked = hpcmod(f"{path} --help")
    assert asked.exit_code == 0
    assert hpcmod(f"help {path}").stdout == asked.stdout
    if path in ("", "site"):
        assert hpcmod(f"{path} help").stdout == asked.stdout


def test_hpcmod_alone_shows_the_commands_that_carry_the_work_on_one_screen() -> None:
    done = hpcmod("")
    lines = done.stdout.splitlines()
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    shown = [line.split()[0] for line in lines if line.startswith("  ")]
    assert shown == [name for names in FIRST.values() for name in names if name in verbs_of(main)]
    assert sum(map(len, FIRST.values())) == 15
    assert "hpcmod --help" in lines[-1]
