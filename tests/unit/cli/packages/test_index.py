"""Options for pip's package indexes mean the same in add, drop, rebase and build --requirements."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.cli.packages.index import make_pip_options
from hpcmod.model.packages.plan import PipOptions
from tests.unit.cli.packages.test_states import call, home

__all__ = ["home"]


def test_options_become_words_for_pip(tmp_path: Path) -> None:
    made = make_pip_options(
        index="https://example.org/simple",
        extra_index=["https://example.org/more"],
        wheel_dirs=[tmp_path],
        no_index=True,
        build=True,
    )
    words = (
        "--index-url=https://example.org/simple",
        "--extra-index-url=https://example.org/more",
        f"--find-links={tmp_path}",
        "--no-index",
    )
    assert made == PipOptions(words, build=True, places=(str(tmp_path),))


@pytest.mark.parametrize(
    "words",
    [
        ("add", "PyTorch", "x", "--dry-run"),
        ("drop", "PyTorch", "einops", "--dry-run"),
        ("build", "-r", "requirements.txt", "--base", "base.sif", "-o", "new.sif"),
    ],
)
def test_a_missing_directory_of_wheels_is_reported(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("einops\n")
    (tmp_path / "base.sif").touch()
    done = call(*words, "--wheel-dir", "nowhere")
    assert (done.exit_code, "--wheel-dir nowhere: no such directory" in done.stderr) == (3, True), done.output
