from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from hpcmod.catalogue import Catalogue
from hpcmod.jobs.cli.script import MARK
from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.installations import install

SHA256 = "a" * 64


@pytest.mark.parametrize(("until", "said"), [("", "retired"), ("2026-01-01", "retired"), ("2999-01-01", "gone")])
def test_a_retired_container_is_refused_from_the_day_on_which_it_no_longer_loads(
    until: str, said: str, tmp_path: Path
) -> None:
    catalogue, script = make_retired(tmp_path, until)
    done = rerun(catalogue, script)
    assert done.exit_code == 3, done.output
    assert said in done.stderr


def make_retired(tmp_path: Path, until: str = "") -> tuple[Catalogue, Path]:
    """Write a catalogue with a retired container and the script of a job that used it."""
    catalogue = make_catalogue(tmp_path / "catalogue", make_record("Toy/1.0", state="retired", until=until))
    modulefile = catalogue.modules / "Toy" / "1.0.lua"
    modulefile.parent.mkdir(parents=True, exist_ok=True)
    modulefile.write_text(f'-- Written by hpcmod.\nlocal root = "{catalogue.software}/Toy/1.0"\n')
    head = f"#!/bin/bash\n{MARK}\n# Image: sha256 {SHA256}\n"
    (tmp_path / "old.sh").write_text(f"{head}module use {catalogue.modules}\nmodule load Toy/1.0 || exit\n")
    return catalogue, tmp_path / "old.sh"


def rerun(catalogue: Catalogue, script: Path, *words: str, **environ: str) -> Result:
    return hpcmod(
        "job", "--rerun", str(script), *words, HPCMOD_CATALOGUE=str(catalogue.directory), PATH="/nowhere", **environ
    )


@pytest.mark.parametrize(("sha256", "code"), [(SHA256, 0), ("b" * 64, 3)])
def test_the_users_own_copy_of_the_same_image_replaces_a_retired_container(
    sha256: str, code: int, tmp_path: Path
) -> None:
    catalogue, script = make_retired(tmp_path)
    before = script.read_text()
    record = install(tmp_path / "own", "Toy/1.0").parents[3] / "software/Toy/1.0/record.json"
    written = json.loads(record.read_text())
    written["image"]["sha256"] = sha256
    record.write_text(json.dumps(written))
    own = tmp_path / "own/modules/all"
    done = rerun(catalogue, script, "-o", str(script), MODULEPATH=f"{catalogue.modules}:{own}")
    assert done.exit_code == code, done.output
    if code == 0:
        assert f"module use {catalogue.modules}\nmodule use {own}\nmodule load Toy/1.0 || exit\n" in done.stdout
        assert script.read_text() == done.stdout and Path(f"{script}~").read_text() == before
