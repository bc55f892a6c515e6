from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.publishing import staged
from hpcmod.catalogue.publishing.staged import Stage, eb_command, install_staged, place_kept
from hpcmod.catalogue.records.sharing import make_catalogue, shared
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.core.errors import CheckFailedError, LackingError
from hpcmod.core.lock import hold
from hpcmod.core.process import Completed
from tests.locks import write_dead_lock


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stage of a catalogue that a group can write to."""
    catalogue = Catalogue(tmp_path / "shop", "shop")
    make_catalogue(catalogue)
    for path in (catalogue.directory, *catalogue.directory.iterdir()):
        if path.is_dir():
            path.chmod(0o2775)
    return Stage(catalogue, "Race", "1", tmp_path / "home" / "hpcmod")


class FakeEb:
    """A fake `eb` that writes the module and the record, and keeps its arguments and environment."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.arguments: list[str] = []
        self.environ: dict[str, str] = {}

    def __call__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> Completed:
        self.arguments, self.environ = list(arguments), dict(environ)
        root = self.path_of("--installpath-software") / "Race" / "1"
        root.mkdir(parents=True)
        sif = self.path_of("--sourcepath") / "Race-1.sif"
        (root / "record.json").write_text(json.dumps({"files": {}, "image": {"path": str(sif), "method": "central"}}))
        module = self.path_of("--installpath-modules") / "all" / "Race" / "1.lua"
        module.parent.mkdir(parents=True)
        module.write_text(f'-- a module\nlocal root = "{root}"')
        return Completed(self.status, "", "no luck")

    def path_of(self, option: str) -> Path:
        return Path(next(one for one in self.arguments if one.startswith(f"{option}=")).partition("=")[2])

    def inputs(self) -> list[Path]:
        """Return the paths that `eb` reads code or settings from, or works in."""
        given = [Path(self.arguments[0]), Path(self.environ["HPCMOD_SITE"])]
        named = ("--robot-paths", "--installpath-modules", "--buildpath", "--repositorypath")
        return [*given, *map(self.path_of, (*named, "--installpath-software"))]


def install(stage: Stage, eb: FakeEb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "run_eb", eb)
    (stage.catalogue.images / "Race-1.sif").write_bytes(b"an image")
    stage.clear()
    easyconfig = stage.directory / "easyconfigs" / "Race-1.eb"
    easyconfig.parent.mkdir()
    easyconfig.write_text("name = 'Race'\n")
    with shared(stage.catalogue):
        install_staged(*(stage, easyconfig, eb_command(stage, easyconfig)), profile="generic", site="x", environ={})


def test_eb_reads_and_works_where_only_the_publisher_can_write(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    eb = FakeEb()
    install(stage, eb, monkeypatch)
    for path in eb.inputs():
        assert stage.catalogue.directory not in path.parents
        assert stage.directory in path.parents
    status = stage.directory.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o700, os.geteuid())
    assert not stage.directory.parent.stat().st_mode & 0o022


def test_the_stage_is_private_regardless_of_the_umask_and_earlier_files(stage: Stage) -> None:
    stage.directory.mkdir(parents=True)
    (stage.directory / "planted.eb").touch()
    before = os.umask(0)
    try:
        stage.clear()
    finally:
        os.umask(before)
    assert list(stage.directory.iterdir()) == []
    assert stat.S_IMODE(stage.directory.stat().st_mode) == 0o700


def test_a_new_kept_rendering_replaces_the_old_one_completely(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    install(stage, FakeEb(), monkeypatch)
    stage.kept.mkdir(parents=True)
    (stage.kept / "old").touch()
    with pytest.raises(LackingError, match=r"only .* may change this directory"):  # it may belong to another user
        place_kept(stage)
    stage.kept.chmod(0o2775)
    place_kept(stage)
    kept = {path.name: path.read_text() for path in stage.kept.iterdir()}
    assert kept["easyconfig"] == "name = 'Race'\n"
    assert f'-- a module\nlocal root = "{stage.software}"' in kept.values()
    assert "old" not in kept
    assert {stat.S_IMODE(path.stat().st_mode) for path in stage.kept.iterdir()} == {0o664}  # as verify expects
    assert [path.name for path in stage.kept.parent.iterdir()] == ["1"]


def test_stages_of_catalogues_of_the_same_name_are_apart(stage: Stage, tmp_path: Path) -> None:
    other = Stage(Catalogue(tmp_path / "other" / "shop", "shop"), "Race", "1", stage.state)
    assert other.directory != stage.directory
    assert other.title == stage.title


def test_shows_the_output_of_eb_if_it_fails(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckFailedError, match="no luck"):
        install(stage, FakeEb(1), monkeypatch)
    stage.remove()
    assert not stage.directory.exists()


def test_publishing_removes_what_killed_publishing_of_others_left(stage: Stage) -> None:
    killed, gone, running = (replace(stage, version=version) for version in ("2", "3", "4"))
    for one in (killed, gone, running):
        one.directory.mkdir(parents=True)
    write_dead_lock(killed.catalogue.locks / f"{killed.title}.lock")
    with hold(running.catalogue.locks / f"{running.title}.lock", limit=0, tell=print, on_stale=lambda: None):
        stage.clear()
    assert sorted(path.name for path in stage.directory.parent.iterdir()) == [stage.title, running.title]
