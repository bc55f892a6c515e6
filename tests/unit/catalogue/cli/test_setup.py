from __future__ import annotations

import grp
import os
import sys
from pathlib import Path

import pytest

from hpcmod import __version__
from hpcmod.catalogue.publishing.terms import set_terms
from hpcmod.catalogue.records.sharing import make_catalogue
from hpcmod.catalogue.records.store import Catalogue
from tests.calls import hpcmod
from tests.catalogues import make_record, put


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    made = Catalogue(tmp_path / "cat", "ours")
    make_catalogue(made)
    return made


@pytest.fixture(autouse=True)
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python interpreter with hpcmod in the same directory."""
    path = tmp_path / "venv" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.touch()
    path.with_name("hpcmod").touch()
    monkeypatch.setattr(sys, "executable", str(path))
    return path


def test_the_place_is_within_the_catalogue_and_printed_for_modulepath(catalogue: Catalogue) -> None:
    done = hpcmod("site", "setup", "--catalogue", catalogue.directory)
    modules = catalogue.directory / "site" / "modules"
    assert (done.exit_code, done.stdout) == (0, f"{modules}\n")
    assert "module load hpcmod" in done.stderr
    names = sorted(path.name for path in (modules / "hpcmod").iterdir())
    assert names == [".modulerc.lua", __version__, f"{__version__}.lua"]
    assert [path.name for path in (catalogue.directory / "site" / "bin").iterdir()] == ["hpcmod"]


def test_a_dry_run_names_every_file_and_writes_none(catalogue: Catalogue) -> None:
    before = sorted(catalogue.directory.rglob("*"))
    named = hpcmod("site", "setup", "--catalogue", catalogue.directory, "--dry-run")
    assert (named.exit_code, len(named.stdout.splitlines())) == (0, 9)
    assert sorted(catalogue.directory.rglob("*")) == before


def test_twice_is_as_once(catalogue: Catalogue) -> None:
    hpcmod("site", "setup", "--catalogue", catalogue.directory)
    before = {path: path.read_text() for path in (catalogue.directory / "site").rglob("*") if path.is_file()}
    assert hpcmod("site", "setup", "--catalogue", catalogue.directory).exit_code == 0
    assert {path: path.read_text() for path in before} == before


def test_fix_modes_gives_site_and_licences_to_the_group_that_the_catalogue_gets_later(catalogue: Catalogue) -> None:
    group = grp.getgrgid(os.getegid()).gr_name
    terms = catalogue.directory.parent / "terms"
    terms.write_text("Terms\n")
    put(catalogue, set_terms(catalogue, make_record("Toy/1.0"), readers="", licence=str(terms)))
    for words in (("site", "setup", "--catalogue"), ("catalogue", "init", "--group", group)):
        assert hpcmod(*words, catalogue.directory).exit_code == 0
    done = hpcmod("catalogue", "verify", "--fix-modes", "--catalogue", catalogue.directory)
    assert "not set by --fix-modes" not in done.stdout
    made = [*catalogue.directory.glob("licences/**/*"), *catalogue.directory.glob("site/**/*")]
    assert [path for path in made if path.stat().st_mode & 0o2060 not in (0o2060, 0o060)] == []
    assert len(made) > 9


def test_the_profile_is_checked_and_named_by_its_whole_path(
    tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ours.toml").write_text('name = "ours"\n')
    monkeypatch.chdir(tmp_path)
    hpcmod("site", "setup", "--catalogue", catalogue.directory, "--site", "ours.toml")
    assert str(tmp_path / "ours.toml") in (catalogue.directory / f"site/modules/hpcmod/{__version__}.lua").read_text()
    assert hpcmod("site", "setup", "--catalogue", catalogue.directory, "--site", "nowhere").exit_code == 3


def test_a_profile_or_an_environment_that_users_may_not_read_is_told(
    tmp_path: Path, catalogue: Catalogue, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr("hpcmod.__file__", str(python))
    (tmp_path / "ours.toml").write_text('name = "ours"\nextends = "etc/base.toml"\n')
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/base.toml").write_text('name = "base"\n')
    setup = ("site", "setup", "--catalogue", catalogue.directory, "--site", tmp_path / "ours.toml")
    below = [path for place in ("etc", "venv") for path in (tmp_path / place, *(tmp_path / place).rglob("*"))]
    for path in (*below, tmp_path / "ours.toml"):
        path.chmod(0o755)
    assert "may read" not in hpcmod(*setup).stderr
    for path, mode in ((tmp_path / "ours.toml", 0o640), (tmp_path / "etc", 0o750), (tmp_path / "venv", 0o700)):
        path.chmod(mode)
    said = [line.partition(": ")[2] for line in hpcmod(*setup).stderr.splitlines() if "may read" in line]
    assert said == [
        f"not all users may read {tmp_path}/{path}: mode {mode} of {tmp_path}/{closed}. "
        f"Open it: chmod {how} {tmp_path}/{closed}"
        for path, mode, closed, how in (
            ("venv/bin/python", 700, "venv", "-R go+rX"),
            ("etc/base.toml", 750, "etc", "go+x"),
            ("ours.toml", 640, "ours.toml", "-R go+rX"),
        )
    ]


def test_eb_is_put_next_to_it_only_if_asked_for_and_there(catalogue: Catalogue, python: Path) -> None:
    assert hpcmod("site", "setup", "--catalogue", catalogue.directory, "--eb").exit_code == 7
    python.with_name("eb").touch()
    assert hpcmod("site", "setup", "--catalogue", catalogue.directory, "--eb").exit_code == 0
    assert (catalogue.directory / "site" / "bin" / "eb").is_file()


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [((), 2, "--catalogue"), (("--catalogue", "nowhere"), 3, "catalogue init"), (("--output", "a:b"), 2, "colon")],
    ids=["nothing", "no catalogue", "colon"],
)
def test_refuses_invalid_requests_with_a_cure(args: tuple[str, ...], code: int, said: str) -> None:
    done = hpcmod("site", "setup", *args)
    assert done.exit_code == code
    assert said in done.stderr


@pytest.mark.parametrize("shared", [True, False])
def test_all_may_read_it_regardless_of_the_umask_and_the_group_writes_where_it_may_above(
    tmp_path: Path, shared: bool
) -> None:
    above = tmp_path / "appl"
    above.mkdir()
    above.chmod(0o2775 if shared else 0o755)
    before = os.umask(0o077)
    try:
        assert hpcmod("site", "setup", "--output", above / "hpcmod").exit_code == 0
    finally:
        os.umask(before)
    made = {path: path.stat().st_mode & 0o7777 for path in (above / "hpcmod").rglob("*")}
    group = 0o020 if shared else 0
    assert {mode for path, mode in made.items() if path.is_dir()} == {0o2775 if shared else 0o755}
    assert {mode for path, mode in made.items() if path.is_file()} == {0o755 | group, 0o644 | group}
