from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.cli.packages import editing
from tests.package_states import OTHER_TAG, TAG
from tests.unit.cli.packages.test_states import call, data, home, must

__all__ = ["home"]

FRESH = ("--set", "fresh")


def test_a_set_is_edited_and_shown_and_discarded(home: Path) -> None:
    directory = home / f".local/share/hpcmod/packages/PyTorch/fresh/edit-{TAG}"
    assert must("edit", "PyTorch", *FRESH, "--dry-run") == f"{directory}\n"
    assert not directory.exists()
    assert must("edit", "PyTorch", *FRESH) == f"{directory}/user-software\n"
    assert data("edit", "PyTorch", *FRESH)["edited"]["base"] is None
    said = call("packages", "PyTorch", *FRESH).stderr
    assert "being edited since " in said and "hpcmod pack PyTorch" in said
    assert data("packages", "PyTorch", *FRESH)["edited"]["directory"] == f"{directory}/user-software"
    assert data("packages", "PyTorch")["edited"] is None
    assert call("add", "PyTorch", "x", *FRESH, "--dry-run").exit_code == 0
    found = data("pack", "PyTorch", *FRESH, "--dry-run")
    assert (found["state"], found["changes"], found["editable"]) == (None, [], [])
    must("edit", "PyTorch", *FRESH, "--discard", "--dry-run")
    assert directory.exists()
    assert data("edit", "PyTorch", *FRESH, "--discard")["discarded"] is True
    assert not directory.exists()


def test_a_command_sees_the_writable_packages_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = home.parent / "software/PyTorch/2.7.1/in-environment"
    program.touch()
    started: list[list[str]] = []

    def stop(argv: list[str]) -> None:
        started.append(argv)
        raise SystemExit(0)

    monkeypatch.setattr(editing, "become", stop)
    monkeypatch.setenv("SINGULARITY_BINDPATH", "/mine")
    for name in ("APPTAINER_BINDPATH", *editing._INSIDE):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    assert call("edit", "PyTorch", *FRESH, "--", "pip", "install", "-e", "./mycode").exit_code == 0
    assert started == [[str(program), "exec", "--", "pip", "install", "-e", "./mycode"]]
    files = home.resolve() / f".local/share/hpcmod/packages/PyTorch/fresh/edit-{TAG}/user-software"
    assert os.environ["SINGULARITY_BINDPATH"] == f"{files}:/user-software,/mine"
    assert os.environ["APPTAINERENV_PIP_CONSTRAINT"] == "/user-software/constraints.txt"


def test_packages_edited_for_the_image_before_an_update_are_not_forgotten(home: Path) -> None:
    must("edit", "PyTorch", *FRESH)
    directory = home / ".local/share/hpcmod/packages/PyTorch/fresh"
    (directory / f"edit-{TAG}").rename(directory / f"edit-{OTHER_TAG}")
    files = directory / f"edit-{OTHER_TAG}/user-software"
    said = (
        "hpcmod: packages for another image (PyTorch/2.7.1) are still being edited since ",
        f"to take them over for PyTorch/2.7.1: hpcmod add PyTorch --from {files}; ",
    )
    for words in (("packages",), ("pack", "--dry-run"), ("edit", "--discard"), ("edit", "--dry-run"), ("rebase",)):
        stderr = call(words[0], "PyTorch", *FRESH, *words[1:]).stderr
        assert all(text in stderr for text in said), (words, stderr)
    must("edit", "PyTorch", *FRESH)
    others = data("packages", "PyTorch", *FRESH)["edited_for_other_images"]
    assert [one["directory"] for one in others] == [str(files)]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("edit", "PyTorch", "--discard"), 3, "are being edited"),
        (("pack", "PyTorch"), 7, "no container runtime"),
        (("pack", "PyTorch", "--dry-run"), 3, "hpcmod edit PyTorch"),
        (("edit", "PyTorch", "--json", "--", "pip"), 2, "a command or --json"),
        (("edit", "PyTorch", "--discard", "--", "pip"), 2, "a command or --discard"),
    ],
)
def test_faults_say_what_to_do(home: Path, words: tuple[str, ...], code: int, said: str) -> None:
    before = sorted(home.rglob("*"))
    result = call(*words)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert sorted(home.rglob("*")) == before
