from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from hpcmod.core.cli.main import main
from hpcmod.core.process import run
from tests.calls import all_commands, hpcmod
from tests.programs import make_program


def complete(*words: str) -> set[tuple[str, str]]:
    completion = ShellComplete(main, {}, "hpcmod", "_HPCMOD_COMPLETE")
    return {(one.value, one.type) for one in completion.get_completions(list(words[:-1]), words[-1])}


@pytest.mark.parametrize("words", [("site", "show"), ("ls", "--site"), ("catalogue", "init", "--site")])
def test_names_of_site_profiles_are_completed(words: tuple[str, ...]) -> None:
    assert complete(*words, "lu") == {("lumi", "plain")}
    assert complete(*words, "./x") == {("./x", "file")}


@pytest.mark.parametrize("words", [("publish",), ("verify",), ("fetch",), ("job", "A")])
def test_files_are_completed(words: tuple[str, ...]) -> None:
    assert complete(*words, "a") == {("a", "file")}


def test_every_site_option_is_completed() -> None:
    found = {line: option for line, command in all_commands() for option in command.params if "--site" in option.opts}
    assert "catalogue refresh" in found
    context = click.Context(main)
    assert [name for name, one in found.items() if not one.shell_complete(context, "lu")] == []


@pytest.mark.slow
def test_the_script_completes_in_bash() -> None:
    script = (
        "source <(hpcmod site completion bash); COMP_WORDS=(hpcmod site show lu) COMP_CWORD=3; "
        '_hpcmod_completion hpcmod; echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    assert run(["bash", "-c", script], env={**os.environ, "PATH": path}).stdout == "lumi\n"


@pytest.mark.parametrize("verb", [("site", "completion", "bash"), ("--help",), ("ls",)])
def test_no_program_of_the_working_directory_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    make_program(tmp_path / "bash", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f":.:{os.environ['PATH']}")
    hpcmod(*verb)
    assert not (tmp_path / "ran").exists()
    assert "." not in os.environ["PATH"].split(":")


def test_fish_shows_whole_descriptions() -> None:
    script = hpcmod("site", "completion", "fish").stdout
    assert 'string split -m 1 "," $completion' in script
    assert 'string split ","' not in script
