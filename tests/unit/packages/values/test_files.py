from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.packages.values.files import PlacedFiles, merge_placed, parse_placed

R = PlacedFiles("/user-software/R", "/home/me/R")


def test_a_directory_is_placed_below_user_software() -> None:
    assert parse_placed("R:/user-software/R/", "/home/me") == R
    assert R.relative == "R"
    assert parse_placed("/a:b:/user-software/x/y", "/").source == "/a:b"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("R", "expected DIRECTORY:/PLACE"),
        ("R:there", "expected DIRECTORY:/PLACE"),
        (":/user-software/R", "expected DIRECTORY:/PLACE"),
        ("R:/opt/R", "not in /opt/R"),
        ("R:/user-software", "not in /user-software"),
        ("R:/user-software/../opt", "not in /opt"),
        ("R:/user-software/venv/x", "hpcmod uses"),
        ("R:/user-software/.hpcmod", "hpcmod uses"),
        ("R:/user-software/a\nb", "control"),
    ],
)
def test_other_places_are_refused(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        parse_placed(text, "/home/me")


def test_the_cure_for_another_place_is_a_bind() -> None:
    with pytest.raises(BadInputError) as caught:
        parse_placed("R:/opt/R", "/home/me")
    assert "--files R:/user-software/R" in caught.value.cure
    assert "SINGULARITY_BIND=R:/opt/R:ro" in caught.value.cure


def test_files_of_a_state_are_those_before_with_changes() -> None:
    julia, new = PlacedFiles("/user-software/julia", "/j"), PlacedFiles("/user-software/R", "/new")
    assert merge_placed([R], [julia], []) == (R, julia)
    assert merge_placed([R, julia], [new], ["/user-software/julia/"]) == (new,)
    with pytest.raises(BadInputError, match="no files of yours"):
        merge_placed([R], [], ["/user-software/x"])
    with pytest.raises(BadInputError, match="is inside"):
        merge_placed([R], [PlacedFiles("/user-software/R/more", "/m")], [])
