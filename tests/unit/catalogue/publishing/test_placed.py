"""Tests of moving an installation from the private directory of `eb` into a catalogue."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.publishing.placed import StagedInstallation
from hpcmod.catalogue.records.sharing import make_catalogue, shared
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.core.errors import BadInputError, CheckFailedError, LackingError
from hpcmod.modules.installed import read_record
from hpcmod.modules.values.install_record import InstalledImage, InstallRecord
from tests.programs import make_program

DIGEST = "0123456789abcdef"


@pytest.fixture
def made(tmp_path: Path) -> StagedInstallation:
    """An installation for a catalogue that a group can write to."""
    catalogue = Catalogue(tmp_path / "shop", "shop")
    make_catalogue(catalogue)
    for path in (catalogue.directory, catalogue.software, catalogue.images):
        path.chmod(0o2775)
    (catalogue.images / "Toy-1.sif").write_bytes(b"an image")
    prefix = str(tmp_path / "home" / DIGEST / "Toy@1" / "root")
    target = catalogue.software / "Toy" / "1"
    made = StagedInstallation(target, catalogue.tree, target, prefix, DIGEST, catalogue)
    for name in ("bin", "easybuild", "user-software/venv/toy/bin"):
        (made.root / name).mkdir(parents=True)
    make_program(made.root / "bin/python", f"#!/bin/bash\nexec '{made.root}/runscripts/python'\n")
    (made.root / "bin/python3").symlink_to("python")
    (made.root / "easybuild/log").write_text(f"{DIGEST} {made.root}")
    (made.root / "data").write_bytes(b"\xff" + os.fsencode(made.root))
    (made.root / "user-software/venv/toy/lib64").symlink_to("lib")
    write_record(made, "bin/python", "bin/python3")
    return made


def write_record(made: StagedInstallation, *files: str) -> None:
    image = {"path": str(made.catalogue.images / "Toy-1.sif"), "method": "central", "size": 8}
    module = {"path": f"{made.prefix}/../modules/Toy/1.lua"}
    record = {"files": dict.fromkeys(files, "sha256"), "image": image, "modulefile": module, "unfinished": True}
    (made.root / "record.json").write_text(json.dumps(record))


def place(made: StagedInstallation) -> None:
    with shared(made.catalogue):
        made.place()


def test_all_of_it_is_copied_with_the_paths_of_the_catalogue(made: StagedInstallation) -> None:
    place(made)
    to = made.target
    assert (to / "bin/python").read_text() == f"#!/bin/bash\nexec '{to}/runscripts/python'\n"
    assert (to / "bin/python3").readlink() == Path("python")
    assert (to / "easybuild/log").read_text() == f"{DIGEST} {to}"
    assert (to / "data").read_bytes() == (made.root / "data").read_bytes()
    assert (to / "user-software/venv/toy/lib64").readlink() == Path("lib")
    modes = [stat.S_IMODE((to / name).stat().st_mode) for name in ("bin", "bin/python", "record.json")]
    assert modes == [0o2775, 0o775, 0o664]


def test_the_image_is_a_second_name_of_the_one_in_the_catalogue(made: StagedInstallation) -> None:
    for _ in range(2):
        place(made)
        image = InstalledImage(str(made.target / "Toy-1.sif"), method="hardlink", size=8)
        files = (("bin/python", ""), ("bin/python3", ""))
        assert read_record(made.target) == InstallRecord(files=files, image=image)
        assert (made.target / "Toy-1.sif").samefile(made.catalogue.images / "Toy-1.sif")
    assert sorted(path.name for path in made.target.iterdir()) == [
        *("Toy-1.sif", "bin", "data", "easybuild", "record.json", "user-software")
    ]


def test_where_hard_links_are_impossible_the_module_uses_the_catalogues_image(
    made: StagedInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared(made.catalogue):
        made.target.mkdir(parents=True)
    (made.target / "Toy-1.sif").write_bytes(b"an older image")

    def link(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", link)
    place(made)
    assert not (made.target / "Toy-1.sif").exists()
    assert json.loads((made.target / "record.json").read_text())["image"]["method"] == "central"


def test_keeps_files_of_users_and_removes_old_scripts(made: StagedInstallation) -> None:
    write_record(made, "bin/old", "bin/../../x", "bin/python")
    (made.root / "bin/old").touch()
    place(made)
    for name in ("bin/mine", "user-software/venv/toy/added"):
        (made.target / name).touch()
    (made.root / "bin/old").unlink()
    write_record(made, "bin/python")
    place(made)
    assert sorted(path.name for path in (made.target / "bin").iterdir()) == ["mine", "python", "python3"]
    assert (made.target / "user-software/venv/toy/added").exists()


@pytest.mark.parametrize("name", ["", "bin", "easybuild", "user-software", "user-software/venv"])
def test_nothing_is_written_behind_a_link(made: StagedInstallation, tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    with shared(made.catalogue):
        (made.target / name).parent.mkdir(parents=True, exist_ok=True)
    (made.target / name).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        place(made)
    assert list(precious.iterdir()) == []
    assert not (made.target / "record.json").exists()


def test_nothing_is_written_into_a_directory_that_only_its_owner_may_change(made: StagedInstallation) -> None:
    (made.target / "bin").mkdir(parents=True, mode=0o755)
    (made.target / "bin").chmod(0o755)
    made.target.chmod(0o2775)
    (made.target / "bin/python").write_text("mine")
    with pytest.raises(LackingError, match="may change this directory"):
        place(made)
    assert (made.target / "bin/python").read_text() == "mine"


def test_a_private_directory_that_stays_in_a_script_is_refused(made: StagedInstallation) -> None:
    (made.root / "bin/python").write_text(f"/h\\u00f6me/{DIGEST}/Toy@1/root{made.target}")
    with pytest.raises(BadInputError, match="unusual characters") as raised:
        place(made)
    assert "XDG_STATE_HOME" in raised.value.cure


def test_something_other_than_a_container_is_refused(made: StagedInstallation) -> None:
    with pytest.raises(CheckFailedError, match="installed no container"):
        place(replace(made, target=made.target.with_name("2")))
