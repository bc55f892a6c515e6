from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.importing.edf_files import EdfPath, EnvironmentFile, literal_text, merge, parse_edf, read_edf
from tests.foreign_recipes import EDF, EDF_BASE, write_tree


def read(path: Path, *, search: Path | None = None, working: Path | None = None) -> EnvironmentFile:
    place = EdfPath((search or path.parent,), working or path.parent)
    return read_edf(path.read_text(), path, place)


def test_all_documented_keys_are_read() -> None:
    edf = parse_edf(EDF, "x.toml")
    assert (edf.bases, edf.image, edf.workdir) == (("common",), "nvcr.io#nvidia/pytorch:24.01-py3", "${SCRATCH}")
    assert (edf.entrypoint, edf.writable) == (False, False)
    assert (len(edf.mounts), edf.devices[1], edf.unknown) == (4, "/dev/gdrdrv", ("colour",))
    assert dict(edf.env)["PATH"] == "${PATH}:/custom/bin"


@pytest.mark.parametrize(
    "text",
    [
        '[annotations]\ncom.hooks.ssh.enabled = "true"\ncom.hooks.ssh.port = "1"\n',
        '[annotations.com.hooks.ssh]\nenabled = "true"\nport = "1"\n',
        '[annotations]\n"com.hooks.ssh.enabled" = true\n[annotations.com.hooks]\nssh.port = "1"\n',
    ],
)
def test_annotations_have_full_names_however_they_are_nested(text: str) -> None:
    found = parse_edf(text, "x").annotations
    assert sorted(found) == [("com.hooks.ssh.enabled", "true"), ("com.hooks.ssh.port", "1")]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("image = 1", "x.toml: image: expected a string, found 1"),
        ('writable = "no"', "writable: expected true or false"),
        ('mounts = "/a"', "mounts: expected a list"),
        ("devices = [1]", "devices: expected a string"),
        ("env = {A = 1}", "env: expected a string"),
        ("annotations = {a = {b = 1}}", "annotations: b: expected a string"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(text: str, clause: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_edf(text, "x.toml")
    assert clause in caught.value.message


@pytest.mark.parametrize("text", ["image = [", "env = 1", "annotations = []", "annotations." + "a." * 30 + "b = 'x'"])
def test_what_is_not_such_a_file_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_edf(text, "x.toml")


def test_lists_are_appended_tables_extended_and_values_replaced() -> None:
    edf = merge(parse_edf(EDF_BASE, "a"), parse_edf(EDF, "b"))
    assert edf.mounts[:3] == ("/capstor/scratch:/capstor/scratch", "/old:/data", "/store/data.sqsh:/data:sqsh")
    assert (edf.workdir, dict(edf.env)["KEEP"], dict(edf.env)["MODE"][:4]) == ("${SCRATCH}", "1", "it's")
    assert edf.devices == ("nvidia.com/gpu=all", "/dev/gdrdrv", "example.org/thing=1")
    assert len(edf.annotations) == 4


def test_a_file_inherits_missing_values_from_its_base() -> None:
    edf = merge(parse_edf('image = "a:1"\nwritable = false\nentrypoint = false\n', "a"), parse_edf("", "b"))
    assert (edf.image, edf.writable, edf.entrypoint) == ("a:1", False, False)


def test_several_bases_are_evaluated_in_order(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "one.toml": 'image = "a:1"\nmounts = ["/1"]\n[env]\nA = "1"\nB = "1"\nC = "1"\n',
            "two.toml": 'image = "a:2"\nmounts = ["/2"]\n[env]\nB = "2"\nC = "2"\n',
            "top.toml": 'base_environment = ["one", "two"]\nmounts = ["/3"]\n[env]\nC = "3"\n',
        },
    )
    edf = read(tmp_path / "top.toml")
    assert (edf.image, edf.mounts, dict(edf.env)) == ("a:2", ("/1", "/2", "/3"), {"A": "1", "B": "2", "C": "3"})


def test_names_are_searched_and_paths_are_relative_to_the_working_directory(tmp_path: Path) -> None:
    write_tree(tmp_path, {"edf/a.toml": 'image = "a:1"', "work/sub/b.toml": 'image = "b:1"', "top/x.toml": ""})
    top = tmp_path / "top/x.toml"
    for base, image in (
        ("a", "a:1"),
        ("./sub/b.toml", "b:1"),
        ("sub/b.toml", "b:1"),
        (f"{tmp_path}/edf/a.toml", "a:1"),
    ):
        top.write_text(f'base_environment = "{base}"')
        edf = read(top, search=tmp_path / "edf", working=tmp_path / "work")
        assert (edf.image, edf.notes) == (image, ())


def test_a_base_next_to_the_file_is_used_with_a_note(tmp_path: Path) -> None:
    write_tree(tmp_path, {"top/x.toml": 'base_environment = "a"', "top/a.toml": 'image = "a:1"'})
    edf = read(tmp_path / "top/x.toml", search=tmp_path, working=tmp_path)
    assert edf.image == "a:1"
    assert "next to the file that names it" in edf.notes[0]


@pytest.mark.parametrize(
    "name", ["none", "./none.toml", "/none/x.toml", "${WHERE}/x.toml", "${NONE}", "a\\u0000b", "x" * 5000]
)
def test_a_base_that_is_missing_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(f'base_environment = "{name}"')
    with pytest.raises(BadInputError):
        read(tmp_path / "x.toml")


def test_ten_levels_are_read_and_no_more(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"e{level}.toml": f'base_environment = "e{level + 1}"' for level in range(11)})
    (tmp_path / "e11.toml").write_text('image = "a:1"')
    assert read(tmp_path / "e1.toml").image == "a:1"
    with pytest.raises(BadInputError, match="more than 10 levels"):
        read(tmp_path / "e0.toml")


def test_a_file_that_leads_to_many_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.toml": 'base_environment = ["b", "b", "b"]', "b.toml": 'base_environment = ["a", "a"]'})
    with pytest.raises(BadInputError, match="more than"):
        read(tmp_path / "a.toml")


def test_the_search_path_is_the_users() -> None:
    here = Path("/work")
    assert EdfPath.of({"HOME": "/h"}, here).directories == (Path("/h/.edf"),)
    assert EdfPath.of({"HOME": "/h", "EDF_PATH": "/a:/b:c:"}, here).directories == (Path("/a"), Path("/b"))
    assert EdfPath.of({}, here).directories == ()


@pytest.mark.parametrize(
    ("text", "expected"), [("x", "x"), ("$${A} $$A $$$$", "${A} $A $$"), ("100$ $ $1 $", "100$ $ $1 $"), ("", "")]
)
def test_two_dollars_mean_one(text: str, expected: str) -> None:
    assert literal_text(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *(("${A}", r"depends on \$\{A\}"), ("x${A:-d}y", r"depends on \$\{A:-d\}"), ("$$${A}", r"depends on \$\{A\}")),
        *(("${A", r"depends on \$\{A"), ("$A/x", r"write \$\{A\}")),
    ],
)
def test_a_value_that_depends_on_a_variable_has_no_literal_text(text: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        literal_text(text)
