from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcmod.errors import BadInputError
from hpcmod.importing.builds.draft import RecipeDraft, recipe_name


def made() -> RecipeDraft:
    draft = RecipeDraft(Path("/x/Dockerfile"), "x")
    draft.set_base("debian:12")
    return draft


def test_without_a_step_or_a_base_there_is_no_recipe() -> None:
    with pytest.raises(BadInputError, match="adds nothing"):
        made().finish()
    with pytest.raises(BadInputError, match="no base"):
        RecipeDraft(Path("/x"), "x").finish()


@pytest.mark.parametrize("base", ["scratch dir", "a b", "nosuch://x", "UPPER:1"])
def test_a_base_that_no_engine_can_use_is_refused(base: str) -> None:
    with pytest.raises(BadInputError):
        made().set_base(base)


@pytest.mark.parametrize(
    ("name", "value", "is_setting"),
    [("VERSION", "1.0", True), ("MPI", "x", False), ("A", "", False), ("B", 'x"y', False), ("_C", "1", False)],
)
def test_an_argument_that_set_cannot_change_is_fixed(name: str, value: str, is_setting: bool) -> None:
    draft = made()
    draft.add_argument(name, value)
    assert (bool(draft.settings), bool(draft.said.changed)) == (is_setting, not is_setting)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("My Tool", "my-tool"), ("1", "image-1"), ("x_y.z", "x-y-z"), ("é", "image"), ("a" * 99, "a" * 60)],
)
def test_names_are_plain(text: str, expected: str) -> None:
    assert recipe_name(text) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("like", "place", "expected"),
    [
        ("COPY", "/to/", {"to/f": "f", "to/in": "in"}),
        ("COPY", "/to", {"to/f": "f", "to/in": "in"}),
        ("%files", "/to", {"to/f": "f", "to/d/in": "in"}),
    ],
)
def test_files_arrive_as_in_the_original(like: str, place: str, expected: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "files/1").mkdir(parents=True)
    (tmp_path / "files/2/d").mkdir(parents=True)
    (tmp_path / "files/1/f").write_text("f")
    (tmp_path / "files/2/d/in").write_text("in")
    draft = made()
    draft.add_copy([Path("/x/f"), Path("/x/d")], f"{tmp_path}/out{place}", "COPY", like=like, mode="750")
    script = draft.steps[0].script.replace("/opt/hpcmod/build/files", f"{tmp_path}/files")
    subprocess.run(["bash", "-c", script], check=True)
    out = tmp_path / "out"
    assert {str(one.relative_to(out)): one.read_text() for one in out.rglob("*") if one.is_file()} == expected
    assert (tmp_path / "out/to/f").stat().st_mode & 0o777 == 0o750
