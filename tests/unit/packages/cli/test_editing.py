from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hpcmod.core.lock import Holder
from hpcmod.packages import building
from hpcmod.packages.cli import editing
from tests.calls import data, hpcmod, must
from tests.package_states import TAG

FRESH = ("--set", "fresh")
NAMES = (*editing._BINDS, *editing._INSIDE, *editing._ALONE)


class Container:
    """What a command does to the writable packages instead of a program in a container."""

    def __init__(self, status: int, installs: str = "") -> None:
        self.status, self.installs = status, installs
        self.argv: list[str] = []
        self.environ: dict[str, str] = {}

    def __call__(self, argv: Sequence[str], *, env: Mapping[str, str], stdout: int | None, tied: bool) -> int:
        self.argv, self.environ = list(argv), {name: env[name] for name in NAMES}
        files = Path(env["SINGULARITY_BINDPATH"].partition(":")[0])
        if self.installs:
            info = files / f"venv/pytorch/lib/python3.12/site-packages/{self.installs}-1.0.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {self.installs}\nVersion: 1.0\n")
            (info / "REQUESTED").touch()
        if stdout is not None:
            print("of the command", file=sys.stderr)
        return self.status


@pytest.fixture
def fresh(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a new set, on a machine with a container runtime."""
    (home.parent / "software/PyTorch/2.7.1/in-environment").touch()
    runtime = home.parent / "bin/apptainer"
    runtime.parent.mkdir()
    runtime.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(runtime.parent))
    monkeypatch.setattr(building, "_compile", lambda *_: None)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return home / ".local/share/hpcmod/packages/PyTorch/fresh"


def edits(monkeypatch: pytest.MonkeyPatch, status: int, installs: str = "") -> Container:
    container = Container(status, installs)
    monkeypatch.setattr(editing, "call", container)
    return container


def test_a_command_that_succeeds_makes_its_packages_active(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container = edits(monkeypatch, 0, "mine")
    monkeypatch.setenv("SINGULARITY_BINDPATH", "/mine")
    done = hpcmod("edit", "PyTorch", *FRESH, "--", "pip", "install", "-e", "./mycode")
    assert (done.exit_code, done.stdout) == (0, "mine: added 1.0\n"), done.output
    assert container.argv[1:] == ["exec", "--", "pip", "install", "-e", "./mycode"]
    files = f"{fresh.resolve()}/edit-{TAG}/user-software"
    inside = "/user-software/constraints.txt"
    assert list(container.environ.values()) == [
        f"{files}:/user-software,/mine",
        f"{files}:/user-software",
        *[inside] * 2,
        *["1"] * 2,
    ]
    assert not (fresh / f"edit-{TAG}").exists()
    assert must("packages", "PyTorch", *FRESH).split()[:3] == ["mine", "1.0", "yours"]
    edits(monkeypatch, 0, "more")
    shown = data("edit", "PyTorch", *FRESH)
    assert (shown["state"]["number"], shown["before"]) == (2, 1)
    assert [change["name"] for change in shown["changes"]] == ["more"]
    assert must("undo", "PyTorch", *FRESH) == "more: removed 1.0\n"


def test_nothing_is_packed_of_a_command_that_fails(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edits(monkeypatch, 3, "mine")
    done = hpcmod("edit", "PyTorch", *FRESH, "--", "false")
    said = " ".join(done.stderr.split())
    assert (done.exit_code, "false ended with status 3, so nothing was packed" in said) == (1, True), done.output
    assert f"Your changes are in {fresh}/edit-{TAG}/user-software" in said
    assert "to discard them: hpcmod edit PyTorch --set fresh --discard" in said
    shown = hpcmod("packages", "PyTorch", *FRESH).stderr
    assert "being edited since " in shown and "to finish: hpcmod edit PyTorch --set fresh" in " ".join(shown.split())
    assert data("packages", "PyTorch", *FRESH)["edited"]["directory"] == f"{fresh}/edit-{TAG}/user-software"
    assert data("packages", "PyTorch")["edited"] is None
    container = edits(monkeypatch, 0)
    assert must("edit", "PyTorch", *FRESH) == "mine: added 1.0\n"
    assert container.argv[1:] == ["shell", "--"]


def test_changes_are_discarded(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edits(monkeypatch, 1)
    hpcmod("edit", "PyTorch", *FRESH)
    assert must("edit", "PyTorch", *FRESH, "--discard") == f"{fresh}/edit-{TAG}\n"
    assert not (fresh / f"edit-{TAG}").exists()
    hpcmod("edit", "PyTorch", *FRESH)
    assert data("edit", "PyTorch", *FRESH, "--discard")["discarded"]["base"] is None


def test_what_is_left_is_said_if_the_result_cannot_be_packed(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    edits(monkeypatch, 0, "mine")
    monkeypatch.setattr("hpcmod.packages.editing.pack_layer", full)
    done = hpcmod("edit", "PyTorch", *FRESH, "--", "true")
    assert (done.exit_code, "Your changes are in" in done.stderr) == (5, True), done.output
    assert (fresh / f"edit-{TAG}").exists()


def test_two_commands_do_not_edit_the_same_packages(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edits(monkeypatch, 1)
    hpcmod("edit", "PyTorch", *FRESH)
    holder = Holder.me()
    (fresh / f"edit-{TAG}/.lock").write_text(json.dumps(vars(holder)))
    for words in ((), ("--discard",)):
        done = hpcmod("edit", "PyTorch", *FRESH, *words)
        said = " ".join(done.stderr.split())
        assert (done.exit_code, f"are being edited by process {os.getpid()}" in said) == (6, True), done.output


def test_who_edits_a_set_is_named_before_pip_starts(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edits(monkeypatch, 1)
    hpcmod("edit", "PyTorch", *FRESH)
    own = hpcmod("add", "PyTorch", "x", *FRESH).stderr
    assert "installing" not in own and "Finish: hpcmod edit PyTorch" in own
    user = os.geteuid()
    monkeypatch.setattr("hpcmod.packages.sets.os.geteuid", lambda: user + 1)
    for words in (("add", "PyTorch", "x"), ("packages", "PyTorch")):
        said = " ".join(hpcmod(*words, *FRESH).stderr.split())
        assert re.search(r"[Aa]sk \S+ to finish", said) and "hpcmod edit" not in said and "installing" not in said, said
