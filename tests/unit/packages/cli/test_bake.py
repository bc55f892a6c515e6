"""The parts of `hpcmod bake` that need no container."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests import corpus
from tests.calls import hpcmod

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
    image, out = corpus.make_image(tmp_path / "image.sif"), tmp_path / "new/mine.sif"
    words = ["bake", str(image), "-o", str(out), "--packages", str(packages)]
    planned = hpcmod(*words, "--dry-run")
    assert "added: einops==0.8.0" in planned.stdout and not out.parent.exists()
    done = hpcmod(*words)
    assert (done.exit_code, done.stdout) == (0, f"{out}\n"), done.output
    found = json.loads(hpcmod(*words, "--force", "--json").stdout)
    assert (found["path"], found["size"]) == (str(out), out.stat().st_size)
    refused = hpcmod(*words, "--json")
    assert json.loads(refused.stdout)["error"]["code"] == 2


def test_reports_code_that_stays_outside_the_image(tmp_path: Path, packages: Path) -> None:
    image, out = corpus.make_image(tmp_path / "image.sif"), tmp_path / "mine.sif"
    info = packages / "venv/mine/lib/python3.12/site-packages/mycode-1.0.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///home/me/mycode"}')
    words = ["bake", str(image), "-o", str(out), "--packages", str(packages)]
    said = "mycode is editable: its code stays in /home/me/mycode, and is not in the image"
    for more in ([], ["--dry-run"]):
        done = hpcmod(*words, *more, "--force")
        assert (done.exit_code, said in " ".join(done.stderr.split())) == (0, True), done.output
    assert json.loads(hpcmod(*words, "--dry-run", "--force", "--json").stdout)["editable"] == [
        {"name": "mycode", "path": "/home/me/mycode"}
    ]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCMOD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("einops  # comment\n")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    corpus.make_image(tmp_path / "image.sif")
    with tarfile.open(tmp_path / "saved.tar", "w") as tar:
        tar.add(tmp_path / "requirements.txt")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("image.sif", "-r", "requirements.txt"), 2, "Missing option '-o'"),
        (("image.sif", "-r", "empty.txt", "-o", "x.sif"), 2, "the files name no package"),
        (("image.sif", "-r", "nowhere.txt", "-o", "x.sif"), 3, "nowhere.txt: no such file"),
        (("image.sif", "--lock", "pylock.toml", "-o", "x.sif"), 3, "pylock.toml: no such file"),
        (("image.sif", "--lock", "pylock.toml", "-r", "requirements.txt", "-o", "x.sif"), 2, "give no others"),
        (("docker://h.io/x:1", "-r", "requirements.txt", "-o", "x.sif"), 2, "hpcmod fetch docker://h.io/x:1 -o base"),
        (("saved.tar", "-r", "requirements.txt", "-o", "x.sif"), 2, "saved.tar: not a SIF"),
        (("image.sif", "--packages", ".", "-r", "requirements.txt", "-o", "x.sif"), 2, "exclude each other"),
        (("image.sif", "-o", "x.sif"), 3, "Name them: -r FILE, --conda FILE or --packages PATH"),
        (("nowhere.sif", "-r", "requirements.txt", "-o", "x.sif"), 3, "nowhere.sif: no such file"),
    ],
)
def test_bad_input_is_reported_with_its_cure_and_leaves_nothing(
    place: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    before = sorted(place.iterdir())
    done = hpcmod("bake", *words)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (code, True), done.output
    assert len(done.stderr.strip().splitlines()) >= 2
    assert sorted(place.iterdir()) == before
