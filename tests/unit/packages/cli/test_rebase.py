from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcmod.core.errors import NotFoundError
from hpcmod.modules.values.place import make_tag
from hpcmod.packages import building, rebasing
from hpcmod.packages.cli import rebase as verb
from hpcmod.packages.values.plan import StatePlan
from hpcmod.packages.values.state import Locked
from tests.calls import data, hpcmod
from tests.package_states import EINOPS
from tests.unit.packages.cli.test_states import active


@pytest.fixture(autouse=True)
def no_needy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake pip that finds no version of needy; tests/integration runs the real one."""

    def resolve(plan: StatePlan, *_: object) -> tuple[Locked, ...]:
        if "needy" in plan.lines:
            raise NotFoundError("no version of needy fits")
        return (EINOPS,) if "einops" in plan.lines else ()

    monkeypatch.setattr(rebasing, "resolve_packages", lambda plan, _: (resolve(plan), plan.conda))
    monkeypatch.setattr(building, "_run_pip", lambda plan, *_: resolve(plan))
    monkeypatch.setattr("hpcmod.packages.builder.find_runtime", lambda _: "/bin/false")


def test_packages_that_cannot_be_installed_are_reported_and_nothing_changes(home: Path) -> None:
    result = hpcmod("rebase", "PyTorch")
    assert result.exit_code == 1
    assert result.stdout == "einops: same 0.8.1\nneedy: gone 1.0 (no version of needy fits)\n"
    assert "hpcmod rebase PyTorch --without needy" in result.stderr
    assert active(home).startswith("states/2-")
    assert json.loads(hpcmod("rebase", "PyTorch", "--json").stdout)["error"]["code"] == 1


def test_packages_can_be_left_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data("rebase", "PyTorch", "--without", "needy", "--dry-run")["state"] is None
    monkeypatch.setattr(verb, "on_a_terminal", lambda: True)
    assert hpcmod("rebase", "PyTorch", "--without", "needy").exit_code == 1  # no answer to the prompt
    assert active(home).startswith("states/2-")
    found = hpcmod("rebase", "PyTorch", "--without", "needy", "--yes")
    assert (found.exit_code, found.stdout) == (0, "einops: same 0.8.1\nneedy: removed 1.0\n"), found.output
    assert active(home).startswith("states/4-")


def test_what_the_first_packages_for_a_new_image_leave_behind_is_told_with_the_command(home: Path) -> None:
    record = home.parent / "software/PyTorch/2.7.1/record.json"
    known = json.loads(record.read_text())
    new = "8" * 64
    known["image"]["sha256"], known["own_packages"]["tag"] = new, make_tag("3.12", new)
    record.write_text(json.dumps(known))
    said = must_tell("add", "PyTorch", "einops")
    assert "not taken over from PyTorch/2.7.1: needy; to take them over: hpcmod rebase PyTorch --from 2" in said
    assert "needy" not in must_tell("add", "PyTorch", "mdurl"), "told once"
    assert "--from 2" in must_tell("rebase", "PyTorch", "--dry-run")
    assert "--from 2" not in must_tell("rebase", "PyTorch", "--from", "4", "--dry-run")


def must_tell(*words: str) -> str:
    done = hpcmod(*words)
    assert done.exit_code == 0, done.output
    return " ".join(done.stderr.split())
