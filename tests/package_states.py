"""States of package sets for tests, and the record of the installation they belong to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcmod.core.values.facts import Package, PythonFacts
from hpcmod.modules.values.place import PackagePlace, SetChoice, make_tag
from hpcmod.packages.sets import PackageSet, make_set
from hpcmod.packages.values.plan import PackageTarget
from hpcmod.packages.values.state import Locked, State, StateOrigin

SHA256 = "5" * 64
TAG = make_tag("3.12", SHA256)
OTHER_TAG = make_tag("3.11", "6" * 64)
TARGET = PackageTarget(
    module="PyTorch/2.7.1",
    sif="/images/torch.sif",
    sha256=SHA256,
    python=PythonFacts("/opt/env/bin/python3.12", "3.12", "/opt/env"),
    venv="/user-software/venv/pytorch",
    place=PackagePlace("PyTorch", TAG),
    packages=(Package("pip", "26.3"), Package("torch", "2.7.1+rocm6.2.4"), Package("Typing_Extensions", "4.12")),
    reference="docker://example.org/torch@sha256:" + "1" * 64,
)
EINOPS = Locked(
    "einops", "0.8.1", "a" * 64, "https://example.org/simple/einops-0.8.1-py3-none-any.whl", 100, "2026-01-01T00:00:00Z"
)
NEEDY = Locked("needy", "1.0", "b" * 64, "file:///wheels/needy-1.0-py3-none-any.whl", 50, "2026-01-01T00:00:00Z")


def make_state(number: int = 1, *locked: Locked, tag: str = TAG, parent: int | None = None, **more: Any) -> State:
    """Make a state in which the user asked for each of the packages."""
    names = tuple(one.name for one in locked)
    action = " ".join(["add", *names])
    origin = StateOrigin("PyTorch/2.7.1", SHA256, "3.12", "2026-01-01T00:00:00Z", "alice", action)
    own = {key: more.pop(key) for key in list(more) if key in StateOrigin.__dataclass_fields__}
    values = {"requirements": names, "size": 4096, **more}
    return State(number=number, tag=tag, locked=locked, parent=parent, origin=replace(origin, **own), **values)


def write_set(directory: Path, *states: State, active: int | None = None, name: str = "default") -> PackageSet:
    """Write a set with these states; the last or the given one is active."""
    found = PackageSet("PyTorch", SetChoice(name), directory)
    make_set(found, None)
    for state in states:
        (directory / f"states/{state.number}-{state.tag}.squashfs").write_bytes(b"hsqs" + bytes(state.size - 4))
        found.add(state)
        if active in (None, state.number):
            found.switch(state)
    return found
