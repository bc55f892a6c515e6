from __future__ import annotations

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.spec import parse_commands, parse_install_mode


def test_keeps_the_order_of_commands_and_drops_repeats() -> None:
    assert parse_commands(["torchrun", "python3.12", "g++", "torchrun"]) == ("torchrun", "python3.12", "g++")


def test_no_commands_are_no_fault() -> None:
    assert parse_commands([]) == ()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param("bin/python", id="slash"),
        pytest.param("..", id="parent"),
        pytest.param("-c", id="flag"),
        pytest.param(".hidden", id="hidden"),
        pytest.param("a b", id="space"),
        pytest.param("a;b", id="shell"),
        pytest.param("python\n", id="newline at the end"),
    ],
)
def test_refuses_what_is_no_file_name_in_bin(name: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_commands(["python", name])
    assert repr(name) in caught.value.message
    assert "'python'" not in caught.value.message


def test_names_all_bad_commands_at_once() -> None:
    with pytest.raises(BadInputError, match="'a/b', 'c d'"):
        parse_commands(["a/b", "ok", "c d"])


@pytest.mark.parametrize("word", ["auto", "copy", "link", "central"])
def test_knows_the_install_modes(word: str) -> None:
    assert parse_install_mode(word) == word


@pytest.mark.parametrize("word", ["", "Copy", "symlink"])
def test_refuses_other_install_modes_and_lists_the_right_ones(word: str) -> None:
    with pytest.raises(BadInputError, match="auto, copy, link, central"):
        parse_install_mode(word)
