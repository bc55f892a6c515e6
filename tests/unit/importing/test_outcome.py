from __future__ import annotations

import pytest

from hpcmod.importing.outcome import (
    ImportedEasyconfig,
    Refused,
    choose_commands,
    secure_homepage,
    settle_names,
    shorten,
)
from hpcmod.model.spec import HOST_COMMANDS
from hpcmod.render.easyconfig import EasyconfigText


def made(name: str, version: str, *namespace: str) -> ImportedEasyconfig:
    return ImportedEasyconfig(
        f"{'/'.join(namespace)}/{name}", EasyconfigText(name, version, "x.sif", "x"), namespace=namespace
    )


def modules(*outcomes: ImportedEasyconfig) -> list[str]:
    return [
        one.easyconfig.module if isinstance(one, ImportedEasyconfig) else "refused" for one in settle_names(outcomes)
    ]


def test_names_that_clash_get_a_prefix() -> None:
    assert modules(made("a", "1", "x", "u"), made("a", "2", "x", "v"), made("b", "1", "x", "u")) == [
        "u-a/1",
        "v-a/2",
        "b/1",
    ]


def test_and_all_of_it_where_one_part_does_not_tell_them_apart() -> None:
    assert modules(made("a", "1", "x", "u"), made("a", "1", "y", "u")) == ["x-u-a/1", "y-u-a/1"]


def test_versions_of_one_tool_do_not_clash() -> None:
    assert modules(made("a", "1", "x"), made("a", "2", "x")) == ["a/1", "a/2"]


def test_the_second_that_makes_a_module_is_refused_and_names_the_first() -> None:
    first, second = settle_names([made("a", "1", "x"), made("a", "1", "x")])
    assert isinstance(first, ImportedEasyconfig)
    assert isinstance(second, Refused)
    assert first.origin in second.reason


def test_refusals_stay_as_they_are() -> None:
    assert settle_names([Refused("x", "y")]) == (Refused("x", "y"),)


def test_commands_come_once_and_none_hides_the_hosts() -> None:
    chosen, said = choose_commands(["a", "b", "a", "module", "x/y", "-n", ""])
    assert chosen == ("a", "b")
    assert len(said) == 4
    assert {"bash", "env", "sh", "module", "singularity"} <= HOST_COMMANDS


def test_descriptions_are_one_line_that_ends_where_a_word_does() -> None:
    assert shorten(" a\n b ") == ("a b", [])
    line, said = shorten("word " * 100)
    assert len(line) < 220
    assert line.endswith("word ...")
    assert said
    assert len(shorten("x" * 500)[0]) < 220


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://a b", "https://a\nb", "x"])
def test_only_addresses_are_homepages(url: str) -> None:
    assert secure_homepage(url)[0] == ""
    assert secure_homepage(url)[1]
