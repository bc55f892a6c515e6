from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import Provenance
from hpcmod.images.trust.provenance import (
    is_remembered,
    parse_provenance,
    read_provenance,
    remember,
    render_provenance,
    sidecar,
    write_provenance,
)

FOUND = Provenance(
    "docker://h.io/x@sha256:" + "a" * 64,
    "sha256:" + "a" * 64,
    "b" * 64,
    5,
    "2026-11-21T00:00:00Z",
    "t 1",
    ("digest: d",),
)


def test_provenance_is_read_back(tmp_path: Path) -> None:
    sif = tmp_path / "x.sif"
    assert read_provenance(sif) is None
    write_provenance(sif, FOUND)
    assert read_provenance(sif) == FOUND
    assert [path.name for path in tmp_path.iterdir()] == ["x.sif.provenance.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', "\0"])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    sidecar(tmp_path / "x.sif").write_text(text)
    with pytest.raises(BadInputError, match=r"x\.sif\.provenance\.json") as damaged:
        read_provenance(tmp_path / "x.sif")
    assert damaged.value.cure


def test_one_of_a_later_form_asks_for_a_newer_hpcmod(tmp_path: Path) -> None:
    write_provenance(tmp_path / "x.sif", FOUND)
    text = json.loads(sidecar(tmp_path / "x.sif").read_text())
    with pytest.raises(BadInputError) as later:
        parse_provenance(json.dumps({**text, "version": 2}).encode(), "x")
    assert "or a later one" in later.value.cure


@pytest.mark.parametrize("variable", ["HOME", "XDG_STATE_HOME"])
def test_only_the_same_words_that_a_run_of_this_user_wrote_are_remembered(tmp_path: Path, variable: str) -> None:
    environ = {variable: str(tmp_path)}
    assert not is_remembered(FOUND, environ)
    remember(FOUND, environ)
    assert is_remembered(FOUND, environ)
    for other in (replace(FOUND, digest=""), replace(FOUND, verified=()), replace(FOUND, sha256="c" * 64)):
        assert not is_remembered(other, environ)
    (place,) = tmp_path.rglob("*.json")
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_what_a_killed_process_left_beside_another_image_is_removed(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    remember(FOUND, environ)
    code = "from hpcmod.core.fs.temporary import temporary_name; print(temporary_name('other.json'))"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "hpcmod/images" / dead).touch()
    remember(FOUND, environ)
    assert [path.name for path in (tmp_path / "hpcmod/images").iterdir()] == [f"{FOUND.sha256}.json"]


@pytest.mark.parametrize("umask", [0o000, 0o002])
def test_saved_notes_are_readable_only_by_the_user(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        remember(FOUND, {"HOME": str(tmp_path)})
    finally:
        os.umask(before)
    state = tmp_path / ".local/state/hpcmod"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (state, state / "images")] == [0o700, 0o700]


@pytest.mark.parametrize("place", ["hpcmod", "hpcmod/images", "hpcmod/images/*.json"])
def test_records_that_others_could_have_written_prove_nothing(tmp_path: Path, place: str) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    remember(FOUND, environ)
    (path,) = tmp_path.glob(place)
    path.chmod(path.stat().st_mode | 0o022)
    assert not is_remembered(FOUND, environ)


@pytest.mark.parametrize("kind", ["fifo", "huge"])
def test_a_file_planted_next_to_a_sif_is_an_immediate_error(tmp_path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(sidecar(tmp_path / "x.sif"))
    else:
        with sidecar(tmp_path / "x.sif").open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(BadInputError, match="expected") as caught:
        read_provenance(tmp_path / "x.sif")
    assert "rm " in caught.value.cure


def test_without_a_home_nothing_is_remembered_and_nothing_fails() -> None:
    remember(FOUND, {})
    assert not is_remembered(FOUND, {})


def test_a_sum_that_is_not_a_sum_points_to_no_file_elsewhere(tmp_path: Path) -> None:
    evil = replace(FOUND, sha256="../../../../etc/passwd")
    remember(evil, {"HOME": str(tmp_path)})
    assert [path.name for path in tmp_path.rglob("*.json")] == ["ecad.json"]


def test_users_see_the_complete_message() -> None:
    lines = "\n".join(render_provenance(FOUND))
    for text in (FOUND.reference, FOUND.digest, FOUND.sha256, FOUND.time, FOUND.tool, "trust: digest: d"):
        assert text in lines
    assert "trust: nothing required" in render_provenance(replace(FOUND, verified=()))
