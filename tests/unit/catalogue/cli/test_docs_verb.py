from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod.core.cli.main import main
from tests.catalogues import make_catalogue, make_record


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    return make_catalogue(tmp_path / "ours", make_record("A/1"), make_record("A/2")).directory


def call(*args: str | Path, **environ: str) -> Result:
    return CliRunner().invoke(main, ["catalogue", "docs", *map(str, args)], env={"HPCMOD_SITE": "generic", **environ})


def test_the_page_to_open_is_printed(catalogue: Path, tmp_path: Path) -> None:
    done = call(tmp_path / "site", HPCMOD_CATALOGUE=str(catalogue))
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/site/index.html\n")
    assert "containers: 2, files: 6" in done.stderr
    assert "ours: containers" in (tmp_path / "site" / "index.html").read_text()
    assert (tmp_path / "site" / "containers" / "A" / "2.html").is_file()


def test_a_catalogue_and_a_title_can_be_named(catalogue: Path, tmp_path: Path) -> None:
    done = call(tmp_path / "site", "--catalogue", catalogue, "--title", "<All> of them", "--json", HPCMOD_CATALOGUE="")
    found = json.loads(done.stdout)
    assert found["containers"] == ["A/2", "A/1"]
    assert found["files"] == len([path for path in (tmp_path / "site").rglob("*.*") if path.is_file()]) - 1
    assert "<h1>&lt;All&gt; of them</h1>" in (tmp_path / "site" / "index.html").read_text()


def test_a_broken_advisory_is_reported(catalogue: Path, tmp_path: Path) -> None:
    (catalogue / "advisories").mkdir()
    (catalogue / "advisories" / "x.toml").write_text("titel = 'x'")
    done = call(tmp_path / "site", "--catalogue", catalogue)
    assert done.exit_code == 0
    assert "did you mean title?" in done.stderr
