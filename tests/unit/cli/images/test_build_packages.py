"""The parts of `hpcmod build --requirements` that need no container."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod.cli.main import main


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCMOD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("einops  # comment\n")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "other.lock").write_text(f"# requirement: needy\nneedy==1.0 --hash=sha256:{'a' * 64}\n")
    return tmp_path


def build(*words: str) -> Result:
    return CliRunner().invoke(main, ["build", *words])


BASE = ("--base", "docker://localhost:1/x:1")
ASKED = ("-r", "requirements.txt", *BASE, "-o", "mine.sif")


def test_a_dry_run_with_a_base_in_a_registry_fetches_nothing(place: Path) -> None:
    assert build(*ASKED, "--dry-run").stdout.splitlines() == [
        "base: docker://localhost:1/x:1, to be fetched",
        "requirement: einops",
        "lock: mine.sif.lock",
        "path: mine.sif",
    ]
    planned = json.loads(build(*ASKED, "--dry-run", "--json", "--lock", "my.lock").stdout)
    assert (planned["added"], planned["requirements"], planned["lock"]) == (None, ["einops"], "my.lock")


def test_a_base_that_is_not_a_sif_is_fetched(place: Path) -> None:
    with tarfile.open(place / "saved.tar", "w") as tar:
        tar.add(place / "requirements.txt")
    words = ("-r", "requirements.txt", "--base", "saved.tar", "-o", "mine.sif", "--dry-run")
    assert build(*words).stdout.startswith("base: saved.tar, to be fetched\n")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("-r", "requirements.txt", "-o", "x.sif"), 2, "no base image given"),
        (("-r", "requirements.txt", *BASE), 2, "no output file given"),
        (("-r", "empty.txt", *BASE, "-o", "x.sif"), 2, "the files name no package"),
        (("-r", "nowhere.txt", *BASE, "-o", "x.sif"), 3, "nowhere.txt: no such file"),
        ((*ASKED, "--lock", "other.lock"), 2, "other.lock locks other requirements than these files have"),
        (("-r", "requirements.txt", "--base", "nowhere.sif", "-o", "x.sif"), 3, "nowhere.sif: no such file"),
        ((*ASKED, "--lock", "nowhere/my.lock"), 3, "--lock nowhere/my.lock: no such directory"),
        (("pytorch-cpu", *ASKED), 2, "--requirements and the recipe pytorch-cpu exclude each other"),
        ((*ASKED, "--mpi", "mpich", "--offline"), 2, "--mpi, --offline: does not apply to --requirements"),
        (("pytorch-cpu", "--no-index", "--index", "URL"), 2, "--index, --no-index: applies to packages only"),
        (("pytorch-cpu", "--wheel-dir", "a", "--wheel-dir", "b", "--dry-run"), 2, "a recipe takes one directory"),
        (("--context", ".", *BASE, "--wheel-dir", "a"), 2, "--base, --wheel-dir: applies to recipes only"),
    ],
)
def test_bad_input_is_reported_with_its_cure_and_leaves_nothing(
    place: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    before = sorted(place.iterdir())
    done = build(*words)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (code, True), done.output
    assert len(done.stderr.strip().splitlines()) >= 2
    assert sorted(place.iterdir()) == before
