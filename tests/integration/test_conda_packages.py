"""A user's conda packages with the real solver, from a local channel, in real containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conda_channel import PLACEHOLDER, CondaFile, index_channel, make_conda
from tests.integration.conftest import TOY, Loader
from tests.integration.test_user_packages import Mine, only_lmod
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

PROGRAM = f"#!/bin/sh\n. {PLACEHOLDER}/share/greet/words\necho $WORD from {PLACEHOLDER}\n"
VENV = "/user-software/venv/toy"


@pytest.fixture
def mine(loader: Loader, tmp_path: Path) -> Mine:
    """A user with a channel: a program in two versions, which needs a package of data."""
    make_wheel(tmp_path / "wheels", "einops", "0.8.1")
    channel = tmp_path / "channel"
    make_conda(channel, "greet-data", "1", {"share/greet/words": "WORD=hello\n"}, kind="tar.bz2")
    for version in ("1.0", "2.0"):
        program = CondaFile(f"{PROGRAM}echo {version}\n".encode(), 0o755)
        make_conda(channel, "greet", version, {"bin/greet": program}, depends=["greet-data", "__glibc >=2.17"])
    index_channel(channel)
    return Mine(loader, tmp_path / "wheels")


@only_lmod
def test_conda_packages_are_added_locked_shared_and_undone_like_those_of_pip(mine: Mine, tmp_path: Path) -> None:
    channel = tmp_path / "channel"
    added = mine.must("add", "Toy", "einops", "--conda", "greet<2", "--channel", channel)
    assert added.splitlines() == ["greet: added 1.0 (conda)", "greet-data: added 1 (conda)", "einops: added 0.8.1"]
    done = mine.loader(
        f"module load {TOY} && singularity exec $SIF greet && singularity exec $SIF python -c 'import einops'"
    )
    assert done.stdout.split("\n")[:2] == [f"hello from {VENV}", "1.0"], done.stderr
    conda = mine.state()["conda"]
    assert isinstance(conda, dict)
    assert conda["requirements"] == ["greet<2"] and conda["channels"] == [channel.as_uri()]
    assert [one["url"] for one in conda["packages"]] == [
        f"{channel.as_uri()}/linux-64/greet-1.0-h0_0.conda",
        f"{channel.as_uri()}/linux-64/greet-data-1-h0_0.tar.bz2",
    ]
    lock = mine.home / "my.lock"
    lock.write_text(mine.must("packages", "Toy", "--lock"))
    assert "greet: changed 1.0 -> 2.0 (conda)" in mine.must("add", "Toy", "--conda", "greet", "--channel", channel)
    mine.must("undo", "Toy")
    mine.must("add", "Toy", "--set", "copy", "--lock", lock)
    assert mine.state(HPCMOD_PACKAGES="copy")["sha256"] == mine.state()["sha256"]
    assert mine.must("drop", "Toy", "greet").splitlines() == [
        "greet: removed 1.0 (conda)",
        "greet-data: removed 1 (conda)",
    ]
