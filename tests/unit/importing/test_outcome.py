from __future__ import annotations

import shutil
import subprocess

import pytest

from hpcmod.importing.outcome import (
    Findings,
    ImportedEasyconfig,
    choose_commands,
    full_description,
    secure_homepage,
    settle_names,
    shell_text,
)
from hpcmod.modules.values.easyconfig import EasyconfigText
from hpcmod.modules.values.spec import HOST_COMMANDS


def made(name: str, version: str, *namespace: str) -> ImportedEasyconfig:
    return ImportedEasyconfig(
        f"{'/'.join(namespace)}/{name}", EasyconfigText(name, version, "x.sif", "x"), namespace=namespace
    )


def modules(*outcomes: ImportedEasyconfig) -> list[str]:
    return [
        one.easyconfig.module if isinstance(one, ImportedEasyconfig) else "refused" for one in settle_names(outcomes)
    ]


def test_a_name_does_not_depend_on_what_else_is_imported() -> None:
    tools = [made("a", "1", "x", "u"), made("a", "2", "x", "v"), made("b", "1", "x", "u")]
    assert modules(*tools) == ["a/1", "a/2", "b/1"]
    full = settle_names(tools, full_names=True)
    assert [one.easyconfig.module for one in full if isinstance(one, ImportedEasyconfig)] == ["u-a/1", "v-a/2", "u-b/1"]


def test_tools_of_one_name_are_noted() -> None:
    first, second = settle_names([made("a", "1", "x", "u"), made("a", "2", "y")])
    assert isinstance(first, ImportedEasyconfig)
    assert isinstance(second, ImportedEasyconfig)
    assert first.notes == ("--full-names gives tools of one name names of their own: another a comes from y",)
    assert "x/u" in second.notes[0]


def test_versions_of_one_tool_do_not_clash() -> None:
    assert modules(made("a", "1", "x"), made("a", "2", "x")) == ["a/1", "a/2"]


def test_no_command_hides_the_hosts() -> None:
    said = Findings()
    commands = {name: (name,) for name in ("a", "b", "module", "x/y", "-n", "")}
    assert choose_commands(commands, said) == (("a", ("a",)), ("b", ("b",)))
    assert len(said.left_out) == 4
    assert {"bash", "env", "sh", "module", "singularity"} <= HOST_COMMANDS


def test_a_description_is_kept_as_it_is_unless_it_is_a_book() -> None:
    said = Findings()
    assert full_description(" a\n b ", said) == "a\n b" and not said.left_out
    assert full_description("word " * 10_000, said).endswith("word ...")
    assert said.left_out == ["the description after 20000 characters: it stays in the recipe"]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://a b", "https://a\nb", "x"])
def test_only_addresses_are_homepages(url: str) -> None:
    said = Findings()
    assert secure_homepage(url, said) == "" and len(said.left_out) == 1
    assert secure_homepage("https://example.org/a", said) == "https://example.org/a" and len(said.left_out) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${HOME}/x ${NONE:-}", "/home/x "),
        ('$(echo owned) `echo owned` " \\ $HOME', '$(echo owned) `echo owned` " \\ $HOME'),
        ("$${HOME} $$", "${HOME} $"),
        ("${HOME:=$(echo owned)}", "${HOME:=$(echo owned)}"),
    ],
)
def test_only_plain_variables_are_expanded_by_the_shell(text: str, expected: str) -> None:
    bash = shutil.which("bash") or "bash"
    said = subprocess.run(
        [bash, "-c", f"printf %s {shell_text(text)}"], env={"HOME": "/home"}, check=True, capture_output=True, text=True
    )
    assert said.stdout == expected
