"""Linking conda packages: files get the prefix's path in the container, and none is written outside of it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, VerificationError
from hpcmod.packages.conda.linking import Prefix, link_conda, link_libraries
from hpcmod.packages.conda.solving import CondaArchive, import_rattler
from hpcmod.packages.values.conda import CondaPackage
from tests.conda_channel import PLACEHOLDER, CondaFile, make_conda

pytestmark = pytest.mark.slow

INSIDE = "/user-software/venv/x"
FORMATS = pytest.mark.parametrize("kind", ["conda", "tar.bz2"])


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    """A virtual environment like that of write_venv."""
    directory = tmp_path / "layer" / "venv"
    (directory / "bin").mkdir(parents=True)
    (directory / "bin/python").symlink_to("/opt/env/bin/python3.12")
    (directory / "lib").mkdir()
    (directory / "lib64").symlink_to("lib")
    return Prefix(directory, INSIDE, "3.12")


@pytest.fixture
def own(tmp_path: Path) -> Prefix:
    """An empty environment of its own."""
    (tmp_path / "layer/new").mkdir(parents=True)
    return Prefix(tmp_path / "layer/new", "/opt/x", "3.12", is_venv=False)


def link(tmp_path: Path, prefix: Prefix, *paths: Path, name: str = "") -> tuple[CondaPackage, ...]:
    """Link packages into a prefix."""
    archives = []
    for path in paths:
        stem = path.name.removesuffix(".conda").removesuffix(".tar.bz2")
        found, version, build = stem.rsplit("-", 2)
        archives.append(CondaArchive(CondaPackage(name or found, version, build, path.as_uri(), "a" * 64), path))
    with tempfile.TemporaryDirectory(dir=tmp_path / "layer") as scratch:
        return link_conda(tuple(archives), prefix, Path(scratch))


@FORMATS
def test_paths_in_files_become_those_of_the_container(tmp_path: Path, prefix: Prefix, kind: str) -> None:
    binary = b"\x7fELF\0" + PLACEHOLDER.encode() + b"/lib:" + PLACEHOLDER.encode() + b"/share\0end"
    files = {
        "bin/tool": CondaFile(f"#!{PLACEHOLDER}/bin/sh\n".encode(), 0o4755),
        "lib/libt.so.1": binary,
        "lib/libt.so": CondaFile(link="libt.so.1"),
        "share/plain": "plain",
    }
    (found,) = link(tmp_path, prefix, make_conda(tmp_path, "tool", "1.0", files, kind=kind))
    top = prefix.directory
    assert (top / "bin/tool").read_text() == f"#!{INSIDE}/bin/sh\n"
    assert (top / "bin/tool").stat().st_mode & 0o7777 == 0o755
    replaced = (top / "lib/libt.so.1").read_bytes()
    assert len(replaced) == len(binary) and replaced.startswith(
        b"\x7fELF\0" + f"{INSIDE}/lib:{INSIDE}/share\0".encode()
    )
    assert replaced.endswith(b"\0end") and (top / "lib/libt.so").readlink() == Path("libt.so.1")
    assert (top / "share/plain").read_text() == "plain"
    assert found.size == sum(len(one.content) for one in files.values() if isinstance(one, CondaFile)) + len(binary) + 5
    record = json.loads((top / "conda-meta/tool-1.0-h0_0.json").read_text())
    assert record["files"] == sorted(files) and record["url"] == found.url
    assert str(tmp_path) not in (top / "conda-meta/tool-1.0-h0_0.json").read_text().replace(found.url, "")


@FORMATS
def test_a_package_for_every_python_goes_to_the_site_packages_of_the_images(
    tmp_path: Path, prefix: Prefix, kind: str
) -> None:
    files = {"site-packages/pure/__init__.py": "x = 1\n", "python-scripts/pure-script": CondaFile(b"#!/x\n", 0o755)}
    path = make_conda(
        tmp_path, "pure", "1.0", files, python=True, kind=kind, entry_points=["pure-tool = pure.cli:app.main"]
    )
    link(tmp_path, prefix, path)
    assert (prefix.directory / "lib/python3.12/site-packages/pure/__init__.py").read_text() == "x = 1\n"
    assert (prefix.directory / "bin/pure-script").exists()
    script = (prefix.directory / "bin/pure-tool").read_text()
    assert script.startswith(f"#!{INSIDE}/bin/python\n") and "from pure.cli import app\n" in script
    assert "sys.exit(app.main())" in script


def test_scripts_of_a_package_are_not_run_but_reported(tmp_path: Path, prefix: Prefix) -> None:
    ran = tmp_path / "ran"
    files = {
        "bin/.post-post-link.sh": CondaFile(f"#!/bin/sh\ntouch {ran}\n".encode(), 0o755),
        "etc/conda/activate.d/post.sh": "export X=1\n",
    }
    (found,) = link(tmp_path, prefix, make_conda(tmp_path, "post", "1.0", files))
    assert found.not_run == ("bin/.post-post-link.sh", "etc/conda/activate.d/post.sh")
    assert not ran.exists()


def test_a_later_package_replaces_a_file_and_never_what_it_links_to(tmp_path: Path, prefix: Prefix) -> None:
    first = make_conda(tmp_path, "first", "1", {"share/real": "first", "share/name": CondaFile(link="real")})
    second = make_conda(tmp_path, "second", "1", {"share/name": "second"})
    link(tmp_path, prefix, first, second)
    assert (prefix.directory / "share/real").read_text() == "first"
    assert (prefix.directory / "share/name").read_text() == "second"


@FORMATS
@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"../../../pwned": "x"}, VerificationError),
        ({"a/../../../pwned": "x"}, VerificationError),
        ({"OUTSIDE/pwned": "x"}, VerificationError),
        ({"share/x": CondaFile(link="OUTSIDE")}, VerificationError),
        ({"share/x": CondaFile(link="../../../../outside")}, VerificationError),
        ({"share/x": CondaFile(link="OUTSIDE"), "share/x/pwned": "x"}, VerificationError),
        ({"info/x": CondaFile(link="OUTSIDE"), "info/x/pwned": "x"}, VerificationError),
        ({"bin/python": "x"}, BadInputError),
        ({"bin/python3.12": "x"}, BadInputError),
        ({"pyvenv.cfg": "x"}, BadInputError),
        ({"lib64": CondaFile(link="/tmp")}, BadInputError),
        ({"conda-meta/other-1-0.json": "x"}, BadInputError),
        ({"a\nb": "x"}, VerificationError),
    ],
)
def test_a_hostile_package_writes_nothing_outside(
    tmp_path: Path, prefix: Prefix, kind: str, files: dict[str, str | CondaFile], error: type[HpcmodError]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    def real(text: str) -> str:
        return text.replace("OUTSIDE", str(outside))

    made = {
        real(path): CondaFile(link=real(one.link)) if isinstance(one, CondaFile) else one for path, one in files.items()
    }
    path = make_conda(tmp_path / "channel", "evil", "1", made, kind=kind)
    with pytest.raises(error):
        link(tmp_path, prefix, path)
    assert list(outside.iterdir()) == [] and not list(tmp_path.rglob("pwned"))
    assert (prefix.directory / "bin/python").readlink() == Path("/opt/env/bin/python3.12")


@FORMATS
@pytest.mark.parametrize("kept", ["a link", "a file", "nothing"])
def test_a_link_to_a_place_outside_moves_nothing_and_nothing_is_written_through_it(
    tmp_path: Path, prefix: Prefix, kind: str, kept: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    if kept != "nothing":
        (outside / "mine").symlink_to("dotfiles") if kept == "a link" else (outside / "mine").touch()
    before, listed = list(outside.iterdir()), ["a/mine"] if kept != "nothing" else None
    first = make_conda(tmp_path, "first", "1", {"a": CondaFile(link=str(outside))}, listed=listed, kind=kind)
    second = make_conda(tmp_path, "second", "1", {"a/pwned": "x"}, kind=kind)
    with pytest.raises(VerificationError, match="leads out of the package"):
        link(tmp_path, prefix, first, second)
    assert list(outside.iterdir()) == before


@FORMATS
def test_a_list_of_files_that_names_others_is_refused(tmp_path: Path, prefix: Prefix, kind: str) -> None:
    secret = tmp_path / "layer" / "secret"
    secret.write_text("secret")
    for listed in (["../../secret"], [str(secret)], ["missing"]):
        path = make_conda(tmp_path, "evil", "1", {"a": "x"}, listed=listed, kind=kind)
        with pytest.raises((VerificationError, BadInputError)):
            link(tmp_path, prefix, path)
    assert secret.read_text() == "secret"


def test_damaged_and_wrong_packages_are_refused(tmp_path: Path, prefix: Prefix) -> None:
    good = make_conda(tmp_path, "good", "1", {"a": "x"})
    with pytest.raises(VerificationError, match="is the package good, expected other"):
        link(tmp_path, prefix, good, name="other")
    good.write_bytes(good.read_bytes()[:300])
    with pytest.raises(VerificationError, match="cannot be unpacked safely"):
        link(tmp_path, prefix, good)
    for entry in ("../x = a:b", "python = a:b", "x", "x = a:b; import os"):
        path = make_conda(tmp_path, "pure", "1.0", {"site-packages/p.py": ""}, python=True, entry_points=[entry])
        with pytest.raises(BadInputError, match="entry point"):
            link(tmp_path, prefix, path)


def test_a_file_without_the_time_of_its_package_is_refused(
    tmp_path: Path, prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rattler ignores errors of utimensat, such as EIO: equal packages would give different images."""
    path = make_conda(tmp_path, "good", "1", {"share/a": "x"})
    rattler = import_rattler()
    extract = rattler.package_streaming.extract

    def extract_without_time(path: Path, directory: Path) -> None:
        extract(path, directory)
        os.utime(directory / "share/a")

    monkeypatch.setattr(rattler.package_streaming, "extract", extract_without_time)
    with pytest.raises(VerificationError, match="share/a has lost its time"):
        link(tmp_path, prefix, path)


def test_libraries_of_the_image_are_linked_unless_the_prefix_has_them(tmp_path: Path, prefix: Prefix) -> None:
    link(tmp_path, prefix, make_conda(tmp_path, "own", "1", {"lib/libown.so.1": "own"}))
    link_libraries(("/opt/env/lib/libz.so.1", "/opt/env/lib/libown.so.1"), prefix)
    assert (prefix.directory / "lib/libz.so.1").readlink() == Path("/opt/env/lib/libz.so.1")
    assert (prefix.directory / "lib/libown.so.1").read_text() == "own"


def test_a_command_is_not_written_through_a_link_that_leads_out(tmp_path: Path, own: Prefix) -> None:
    files = {"bin": CondaFile(link=str(tmp_path)), "site-packages/x.py": ""}
    bad = make_conda(tmp_path, "bad", "1.0", files, python=True, entry_points=["evil = x:main"])
    with pytest.raises(VerificationError, match="leads out"):
        link(tmp_path, own, bad)
    assert not (tmp_path / "evil").exists()


def test_an_environment_of_its_own_may_have_a_python_but_no_record_of_another_package(
    tmp_path: Path, own: Prefix
) -> None:
    files = {"bin/python3.12": "x", "lib64": CondaFile(link="lib")}
    link(tmp_path, own, make_conda(tmp_path, "python", "3.12.1", files))
    assert (own.directory / "bin/python3.12").read_text() == "x"
    with pytest.raises(BadInputError, match="belongs to conda"):
        link(tmp_path, own, make_conda(tmp_path, "forged", "1", {"conda-meta/python-3.12.1-h0_0.json": "{}"}))
