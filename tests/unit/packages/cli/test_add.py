from __future__ import annotations

from pathlib import Path

import pytest

from tests.calls import data, hpcmod, must
from tests.unit.packages.cli.test_states import active


def test_a_dry_run_prints_the_plan_and_changes_nothing(home: Path, tmp_path: Path) -> None:
    before = sorted(home.rglob("*"))
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("torchinfo\n--extra-index-url https://example.org/simple\n")
    lines = must(
        "add", "PyTorch", "timm<1", "-r", str(requirements), "--allow-replace", "torch", "--dry-run"
    ).splitlines()
    assert "requirement: timm<1" in lines
    assert "requirement: torchinfo" in lines
    assert "may replace: torch" in lines
    assert "constraints: 0 packages of the image" in lines
    assert "constraint: einops==0.8.1" in lines
    assert "--extra-index-url=https://example.org/simple" in lines[-1]
    assert sorted(home.rglob("*")) == before
    found = data("drop", "PyTorch", "needy", "--dry-run")
    assert (found["state"], found["before"], "requirement: einops" in found["plan"]) == (None, 2, True)


@pytest.mark.parametrize("words", [("pip", "install", "einops"), ("pip", "einops")])
def test_the_command_of_pip_is_answered_with_that_of_hpcmod(words: tuple[str, ...]) -> None:
    answer = "unknown command: pip. To add Python packages to a container: hpcmod add NAME einops"
    assert hpcmod(*words).stderr == f"hpcmod: {answer}\n"


def test_the_set_is_that_of_the_environment_or_the_option(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data("add", "PyTorch", "x", "--dry-run", "--set", "mine")["set"] == "mine"
    assert data("add", "PyTorch", "x", "--dry-run", "--shared", "/proj/ai")["directory"] == "/proj/ai/PyTorch"
    monkeypatch.setenv("HPCMOD_PACKAGES", "other@3")
    assert data("add", "PyTorch", "x", "--dry-run")["set"] == "other"
    monkeypatch.setenv("HPCMOD_PACKAGES_DIR", str(home / "elsewhere"))
    assert data("add", "PyTorch", "x", "--dry-run")["directory"] == f"{home}/elsewhere/packages/PyTorch/other"


def test_dropping_everything_needs_no_pip(home: Path) -> None:
    refused = hpcmod("drop", "PyTorch", "einops", "needy")
    assert "no container runtime" in refused.output
    assert active(home).startswith("states/2-")


def test_manually_installed_packages_are_reported_before_they_are_hidden(home: Path) -> None:
    venv = home.parent / "software/PyTorch/2.7.1/user-software/venv/pytorch/lib/python3.12/site-packages"
    venv.mkdir(parents=True)
    (venv / "image.pth").touch()
    first = ("add", "PyTorch", "x", "--dry-run", "--set", "first")
    assert "by hand" not in hpcmod(*first).stderr
    (venv / "mine.py").touch()
    said = " ".join(hpcmod(*first).stderr.split())
    assert "hidden while these packages are active: those installed by hand in " in said
    assert f"in {home.parent}/software/PyTorch/2.7.1/user-software; to take them over: HPCMOD_PACKAGES=none " in said
    assert "by hand" not in hpcmod("add", "PyTorch", "x", "--dry-run").stderr  # already hidden by the active set


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--from", "missing"), 3, "no such file"),
        (("--from", "environment.yml"), 2, "environment.yml is for --conda"),
        (("--from", "list.txt", "einops"), 2, "give --from alone"),
        (("--from", "list.txt", "--lock", "x"), 2, "give --from alone"),
        (("einops", "--without", "x"), 2, "--without is for --from"),
        (("--from", "list.txt"), 7, "no container runtime"),
        (("--from", "."), 2, "is a directory"),
    ],
)
def test_mistakes_with_from_say_what_to_do_and_change_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, said: str
) -> None:
    (tmp_path / "list.txt").write_text("einops==0.8\n")
    monkeypatch.chdir(tmp_path)
    before = sorted(home.rglob("*"))
    result = hpcmod("add", "PyTorch", *words)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert sorted(home.rglob("*")) == before
