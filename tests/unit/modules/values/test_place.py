from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.place import (
    PackagePlace,
    SetChoice,
    base_directory,
    make_tag,
    parse_active_link,
    parse_choice,
    parse_state_file,
    record_file,
    set_directory,
    state_file,
)


def test_a_tag_has_the_python_and_the_image() -> None:
    tag = make_tag("3.12", "0123456789abcdef" * 4)
    assert tag == "cp312-0123456789ab"
    assert PackagePlace("PyTorch", tag).link == "active-cp312-0123456789ab.squashfs"
    assert state_file(3, tag) == "states/3-cp312-0123456789ab.squashfs"
    assert record_file(3, tag) == "states/3-cp312-0123456789ab.json"
    assert parse_state_file("3-cp312-0123456789ab.squashfs") == (3, tag)
    assert parse_active_link("active-cp312-0123456789ab.squashfs") == tag


@pytest.mark.parametrize("name", ["3.squashfs", "../3-cp312-0123456789ab.squashfs", "3-cp312-0123456789ab.json", ""])
def test_other_names_are_not_states(name: str) -> None:
    assert parse_state_file(name) is None
    assert parse_active_link(name) is None


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("", SetChoice("default")),
        ("none", None),
        ("mine", SetChoice("mine")),
        ("mine@3", SetChoice("mine", "", 3)),
        ("@3", SetChoice("default", "", 3)),
        ("/proj/ai/", SetChoice("", "/proj/ai")),
        ("/proj/a@b@12", SetChoice("", "/proj/a@b", 12)),
    ],
)
def test_a_set_is_chosen(text: str, choice: SetChoice | None) -> None:
    assert parse_choice(text) == choice


@pytest.mark.parametrize("text", ["../up", "a/b", "-x", ".hidden", "a b", "/x\ny", "none@1", "x" * 65])
def test_invalid_names_of_sets_are_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_choice(text)


def test_sets_are_in_the_home_directory_or_where_the_variable_says() -> None:
    home = {"HOME": "/home/u"}
    assert set_directory("PyTorch", SetChoice("mine"), home) == "/home/u/.local/share/hpcmod/packages/PyTorch/mine"
    assert set_directory("PyTorch", SetChoice("", "/proj/ai"), home) == "/proj/ai/PyTorch"
    assert base_directory({**home, "HPCMOD_PACKAGES_DIR": "/scratch/u"}) == "/scratch/u/packages"
    assert base_directory({**home, "HPCMOD_PACKAGES_DIR": "relative"}) == "/home/u/.local/share/hpcmod/packages"
