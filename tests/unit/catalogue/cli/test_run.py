from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from hpcmod.catalogue.cli.run import split_words
from hpcmod.modules.values.runtime_options import RUNTIME_FLAGS, RUNTIME_SHORT
from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.installations import install
from tests.stack import Stack

LINES = {
    "nothing but a name": ("N", [], []),
    "a command": ("N cmd -x --nv", [], ["cmd", "-x", "--nv"]),
    "a flag": ("--nv N cmd", ["--nv"], ["cmd"]),
    "a value apart": ("-B /a:/b --env A=b N cmd", ["-B", "/a:/b", "--env", "A=b"], ["cmd"]),
    "a value attached": ("-B/a:/o --env=A=b N", ["-B/a:/o", "--env=A=b"], []),
    "letters together": ("-ecB /a N", ["-ecB", "/a"], []),
    "a flag by its letter": ("-f -p N", ["-f", "-p"], []),
    "an end of the options": ("--nv -- N cmd", ["--nv"], ["cmd"]),
    "an end behind the name": ("N -- cmd -- x", [], ["cmd", "--", "x"]),
}


@pytest.mark.parametrize(("line", "options", "command"), LINES.values(), ids=LINES)
def test_words_are_split_at_the_name(line: str, options: list[str], command: list[str]) -> None:
    assert split_words(line.split()) == (options, "N", command)


@pytest.mark.parametrize("line", ["", "--nv", "--bind N", "-B", "--", "-B /a --"])
def test_without_a_name_the_usage_is_wrong(line: str) -> None:
    with pytest.raises(click.UsageError):
        split_words(line.split())


@pytest.mark.stack
@pytest.mark.parametrize("verb", ["exec", "shell"])
def test_the_options_of_the_runtime_are_those_that_it_has(stack: Stack, verb: str) -> None:
    program = shutil.which(stack.apptainer)
    assert program
    help_text = subprocess.run([program, verb, "--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ {2}(?:-(\w), |    )--([\w-]+)(?: (\w+))?  ", help_text, re.MULTILINE)
    assert len(found) > 40
    flags = {name for _, name, kind in found if not kind} - {"help"}
    assert flags <= RUNTIME_FLAGS
    assert {name for _, name, kind in found if kind} & RUNTIME_FLAGS == set()
    with_value = {letter: name for letter, name, kind in found if letter and kind}
    assert {letter: name for letter, name in with_value.items() if RUNTIME_SHORT.get(letter) != name} in (
        {},
        {"s": "shell"},
    )


@pytest.mark.parametrize("verb", ["exec", "shell", "add"])
def test_the_cure_of_a_retired_container_is_the_same_command_with_its_successor(verb: str, tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path, make_record("Toy/1.0", state="retired", successor="Toy/2.0"))
    done = hpcmod(
        verb, "Toy/1.0", "x", HPCMOD_CATALOGUE=str(catalogue.directory), HPCMOD_SITE="generic", PATH="/nowhere"
    )
    assert (done.exit_code, f"Use Toy/2.0: hpcmod {verb} Toy/2.0 ..." in done.stderr) == (3, True), done.output


@pytest.mark.parametrize("verb", ["exec", "shell", "add", "job"])
def test_the_refusal_of_a_retired_container_names_the_users_own_copy(verb: str, tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path / "site", make_record("Toy/1.0", state="retired"))
    install(catalogue.directory, "Toy/1.0")
    own = install(tmp_path / "home/.local/easybuild", "Toy/1.0").parents[1]
    environ = {"HPCMOD_CATALOGUE": str(catalogue.directory), "HPCMOD_SITE": "generic", "PATH": "/nowhere"}
    done = hpcmod(verb, "Toy/1.0", "x", **environ, HOME=str(tmp_path / "home"), MODULEPATH=str(catalogue.modules))
    assert (done.exit_code, f"module use {own}\nSee: hpcmod ls" in done.stderr) == (3, True), done.output
