from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tarfile
from functools import partial
from pathlib import Path

import pytest

from hpcmod.catalogue.bundle import SUMS, read_bundle, write_bundle
from hpcmod.core import progress
from hpcmod.core.errors import BadInputError, HpcmodError, VerificationError
from tests.corpus import make_random, make_sif


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    place = tmp_path / "from"
    place.mkdir()
    (place / "X-1.eb").write_text("name = 'X'\n")
    (place / "x.sif.provenance.json").write_text("{}")
    return [place / "X-1.eb", make_sif(place / "x.sif"), place / "x.sif.provenance.json"]


@pytest.fixture
def bundle(tmp_path: Path, files: list[Path]) -> Path:
    write_bundle(files, tmp_path / "b.tar")
    return tmp_path / "b.tar"


def test_round_trip(tmp_path: Path, files: list[Path], bundle: Path) -> None:
    assert read_bundle(bundle, tmp_path / "to") == [tmp_path / "to" / "X-1.eb", tmp_path / "to" / "x.sif"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "to").iterdir()} == {
        path.name: path.read_bytes() for path in files
    }


def test_tar_and_sha256sum_are_enough_to_unpack_and_check_one(tmp_path: Path, bundle: Path) -> None:
    subprocess.run(["tar", "-xf", bundle, "-C", tmp_path], check=True)
    done = subprocess.run(["sha256sum", "-c", SUMS], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["X-1.eb: OK", "x.sif: OK", "x.sif.provenance.json: OK"]


@pytest.mark.slow
def test_a_truncated_or_changed_bundle_yields_no_wrong_file(tmp_path: Path, files: list[Path], bundle: Path) -> None:
    whole = bundle.read_bytes()
    right = {path.name: path.read_bytes() for path in files}
    used = len(whole) - 10240
    for number, at in enumerate(range(0, used, used // 40)):
        for changed in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            (tmp_path / "bad.tar").write_bytes(changed)
            place = tmp_path / f"to{number}-{len(changed)}"
            try:
                read_bundle(tmp_path / "bad.tar", place)
            except HpcmodError:
                assert not place.exists() or {path.name for path in place.iterdir()} <= set(right)
            for path in place.iterdir() if place.exists() else ():
                assert path.read_bytes() == right[path.name]


def test_a_truncated_bundle_fails_verification_and_says_to_copy_it_again(tmp_path: Path, bundle: Path) -> None:
    whole = bundle.read_bytes()
    for size in (1700, 20_000, 40_000):
        (tmp_path / "cut.tar").write_bytes(whole[:size])
        with pytest.raises(VerificationError, match=r"cut\.tar") as caught:
            read_bundle(tmp_path / "cut.tar", tmp_path / "to")
        assert "Copy the bundle again" in caught.value.cure


def test_a_bundle_with_a_changed_byte_is_to_be_copied_again_too(tmp_path: Path, bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes().replace(b"name = 'X'", b"name = 'Y'"))
    with pytest.raises(VerificationError, match=r"X-1\.eb: sha256 is") as caught:
        read_bundle(bundle, tmp_path / "to")
    assert caught.value.cure == "Copy the bundle again."


def rewrite(bundle: Path, change: str, name: str = "") -> Path:
    """Write a bundle whose members are modified by a function."""
    out = bundle.with_name("rewritten.tar")
    with tarfile.open(bundle) as old, tarfile.open(out, "w") as new:
        for member in old:
            data = old.extractfile(member)
            if change == "drop" and member.name == name:
                continue
            if change == "rename" and member.name == name:
                member.name = "../escaped.sif"
            if change == "link" and member.name == name:
                member.type, member.linkname, member.size, data = tarfile.SYMTYPE, "/etc/passwd", 0, None
            new.addfile(member, data)
    return out


@pytest.mark.parametrize(
    ("change", "name", "error"),
    [
        ("drop", "x.sif", VerificationError),
        ("drop", SUMS, BadInputError),
        ("rename", "x.sif", BadInputError),
        ("link", "x.sif", BadInputError),
    ],
)
def test_a_bundle_with_other_members_than_it_lists_is_refused(
    tmp_path: Path, bundle: Path, change: str, name: str, error: type[HpcmodError]
) -> None:
    with pytest.raises(error):
        read_bundle(rewrite(bundle, change, name), tmp_path / "to")
    assert not (tmp_path / "escaped.sif").exists()


@pytest.mark.parametrize("name", ["x.tar", "-x.sif", "a b.sif", ".x.sif", "from/x.sif"])
def test_only_files_of_plain_names_go_in_each_name_once(tmp_path: Path, files: list[Path], name: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(BadInputError, match="a bundle cannot contain"):
        write_bundle([*files, tmp_path / name], tmp_path / "b.tar")


def test_a_bundle_cannot_write_more_than_it_has(tmp_path: Path) -> None:
    (tmp_path / "x.sif").touch()
    os.truncate(tmp_path / "x.sif", 50_000_000)
    zeros = hashlib.sha256(bytes(50_000_000)).hexdigest()
    (tmp_path / SUMS).write_text(f"{zeros}  x.sif\n")
    for kind in ("gnu", "pax"):
        subprocess.run(["tar", "-S", f"--format={kind}", "-cf", "b.tar", SUMS, "x.sif"], cwd=tmp_path, check=True)
        with pytest.raises(BadInputError, match=r"x\.sif"):
            read_bundle(tmp_path / "b.tar", tmp_path / "to")
        assert not (tmp_path / "to" / "x.sif").exists()


def test_existing_files_are_replaced_only_on_request(tmp_path: Path, bundle: Path) -> None:
    place = tmp_path / "to"
    read_bundle(bundle, place)
    read_bundle(bundle, place)
    (place / "X-1.eb").write_text("mine")
    (place / "x.sif").unlink()
    with pytest.raises(BadInputError, match=r"X-1\.eb: already exists") as caught:
        read_bundle(bundle, place)
    assert "--force" in caught.value.cure
    assert ((place / "X-1.eb").read_text(), (place / "x.sif").exists()) == ("mine", False)
    read_bundle(bundle, place, replace=True)
    assert (place / "X-1.eb").read_text() == "name = 'X'\n"


def test_a_file_with_an_unexpected_checksum_is_not_bundled(tmp_path: Path, files: list[Path]) -> None:
    out = tmp_path / "b.tar"
    with pytest.raises(VerificationError, match=r"x\.sif"):
        write_bundle(files, out, expected={"x.sif": "0" * 64})
    assert not out.exists()
    sums = write_bundle(files, out)
    assert write_bundle(files, out, expected={"x.sif": sums["x.sif"]}) == sums


@pytest.fixture
def each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report progress each time there is some, instead of ten times per second."""
    monkeypatch.setattr(progress, "_TICK", 0.0)


@pytest.mark.usefixtures("each_tick")
def test_export_and_import_tell_how_far_they_are_from_the_first_byte_to_the_last(
    tmp_path: Path, files: list[Path]
) -> None:
    size = sum(path.stat().st_size for path in files)
    for work, whole in (
        (partial(write_bundle, files, tmp_path / "b.tar"), lambda: size),
        (partial(read_bundle, tmp_path / "b.tar", tmp_path / "to"), lambda: (tmp_path / "b.tar").stat().st_size),
        (partial(read_bundle, tmp_path / "b.tar", tmp_path / "to"), lambda: (tmp_path / "b.tar").stat().st_size + size),
    ):
        seen: list[tuple[int, int]] = []
        work(progress=lambda done, total, seen=seen: seen.append((done, total)))
        assert len(seen) >= len(files)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert {total for _, total in seen} == {whole()} == {seen[-1][0]}


def interrupt(done: int, total: int) -> None:
    if done > total // 2:
        raise KeyboardInterrupt


@pytest.mark.usefixtures("each_tick")
def test_an_export_that_is_interrupted_leaves_what_was_there(tmp_path: Path, files: list[Path]) -> None:
    (tmp_path / "b.tar").write_text("before")
    with pytest.raises(KeyboardInterrupt):
        write_bundle(files, tmp_path / "b.tar", progress=interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "from"]
    assert (tmp_path / "b.tar").read_text() == "before"


@pytest.mark.usefixtures("each_tick")
def test_an_interrupted_import_leaves_complete_files_and_the_next_continues(tmp_path: Path, bundle: Path) -> None:
    place = tmp_path / "to"
    with pytest.raises(KeyboardInterrupt):
        read_bundle(bundle, place, progress=interrupt)
    assert [path.name for path in place.iterdir()] == ["X-1.eb"]
    before = (place / "X-1.eb").stat().st_ino
    read_bundle(bundle, place)
    assert len(list(place.iterdir())) == 3
    assert (place / "X-1.eb").stat().st_ino == before


def test_an_import_needs_space_only_for_missing_files(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("hpcmod.catalogue.bundle.check_room", lambda needs: asked.append(needs[0].bytes))
    read_bundle(bundle, tmp_path / "to")
    (tmp_path / "to" / "X-1.eb").unlink()
    read_bundle(bundle, tmp_path / "to")
    assert asked[0] == bundle.stat().st_size
    assert asked[0] - asked[1] == sum(path.stat().st_size for path in (tmp_path / "to").glob("x.*"))


def test_a_link_of_another_user_is_not_mistaken_for_a_file_of_the_bundle(tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "X-1.eb").symlink_to(tmp_path / "from" / "X-1.eb")
    with pytest.raises(BadInputError, match="already exists"):
        read_bundle(bundle, tmp_path / "to")
    read_bundle(bundle, tmp_path / "to", replace=True)
    assert not (tmp_path / "to" / "X-1.eb").is_symlink()


KILLED = """
import os, signal, sys
from pathlib import Path
from hpcmod.catalogue.bundle import read_bundle, write_bundle
def die(done, total):
    if done > 100:
        os.kill(os.getpid(), signal.SIGKILL)
verb, one, other = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
read_bundle(one, other, progress=die) if verb == "import" else write_bundle([one], other, progress=die)
"""


@pytest.mark.parametrize("verb", ["import", "export"])
def test_the_next_run_removes_leftovers_of_a_killed_one(tmp_path: Path, verb: str) -> None:
    image = make_random(tmp_path / "a.sif", size=1 << 20)
    write_bundle([image], tmp_path / "a.tar")
    (tmp_path / "out").mkdir()
    one, other = (tmp_path / "a.tar", tmp_path / "out") if verb == "import" else (image, tmp_path / "out/b.tar")
    killed = subprocess.run([sys.executable, "-c", KILLED, verb, str(one), str(other)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "out").iterdir())) == 1
    read_bundle(one, other) if verb == "import" else write_bundle([one], other)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.sif" if verb == "import" else "b.tar"]
