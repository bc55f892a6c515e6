from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcmod.cli.main import main
from tests import corpus

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="mksquashfs is missing")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    site = tmp_path / "packages/venv/mine/lib/python3.12/site-packages"
    (site / "einops-0.8.0.dist-info").mkdir(parents=True)
    (site / "einops.py").write_text("x = 1")
    return tmp_path / "packages"


def test_an_image_and_packages_become_a_sif(tmp_path: Path, packages: Path) -> None:
    image, out = corpus.make_image(tmp_path / "image.sif"), tmp_path / "mine.sif"
    words = ["bake", str(image), "-o", str(out), "--packages", str(packages)]
    planned = CliRunner().invoke(main, [*words, "--dry-run"])
    assert "added: einops==0.8.0" in planned.stdout and not out.exists()
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stdout) == (0, f"{out}\n"), done.output
    found = json.loads(CliRunner().invoke(main, [*words, "--force", "--json"]).stdout)
    assert (found["path"], found["size"]) == (str(out), out.stat().st_size)
    refused = CliRunner().invoke(main, [*words, "--json"])
    assert json.loads(refused.stdout)["error"]["code"] == 2


def test_packages_must_be_named_for_an_image_that_is_not_installed(tmp_path: Path, packages: Path) -> None:
    image = corpus.make_image(tmp_path / "image.sif")
    done = CliRunner().invoke(main, ["bake", str(image), "-o", str(tmp_path / "mine.sif")])
    assert done.exit_code == 3
    assert "--packages PATH" in done.stderr


def test_reports_code_that_stays_outside_the_image(tmp_path: Path, packages: Path) -> None:
    image, out = corpus.make_image(tmp_path / "image.sif"), tmp_path / "mine.sif"
    info = packages / "venv/mine/lib/python3.12/site-packages/mycode-1.0.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///home/me/mycode"}')
    words = ["bake", str(image), "-o", str(out), "--packages", str(packages)]
    said = "mycode is editable: its code stays in /home/me/mycode, and is not in the image"
    for more in ([], ["--dry-run"]):
        done = CliRunner().invoke(main, [*words, *more, "--force"])
        assert (done.exit_code, said in " ".join(done.stderr.split())) == (0, True), done.output
    assert json.loads(CliRunner().invoke(main, [*words, "--dry-run", "--force", "--json"]).stdout)["editable"] == [
        {"name": "mycode", "path": "/home/me/mycode"}
    ]
