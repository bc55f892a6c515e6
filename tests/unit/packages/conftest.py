from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.packages import rebasing
from hpcmod.packages.builder import Builder
from hpcmod.packages.values.plan import StatePlan
from hpcmod.packages.values.state import Locked

Answer = Callable[[Callable[[StatePlan], tuple[Locked, ...]]], None]


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    """A builder on a machine without a container runtime."""
    (tmp_path / "tmp").mkdir()
    return Builder("/no/runtime", {"HOME": str(tmp_path)}, tmp_path / "tmp", "2026-02-02T00:00:00Z", "alice")


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Return a function that replaces pip's resolver by another function."""

    def use(resolve: Callable[[StatePlan], tuple[Locked, ...]]) -> None:
        monkeypatch.setattr(rebasing, "resolve_packages", lambda plan, _: (resolve(plan), plan.conda))

    return use
