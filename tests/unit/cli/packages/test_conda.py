"""The options for conda packages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from hpcmod.cli.packages.conda import read_conda_options, tell_conda
from hpcmod.model.packages.conda import NO_CONDA, CondaPart
from tests.package_states import make_state
from tests.unit.model.packages.test_conda import HTSLIB, PART, SAMTOOLS


def test_options_become_requirements_and_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "channel").mkdir()
    assert read_conda_options((), ()) == NO_CONDA
    assert read_conda_options(("samtools",), ("channel",)) == CondaPart(
        ("samtools",), ((tmp_path / "channel").as_uri(),)
    )
    with pytest.raises(click.UsageError, match="--channel is for --conda"):
        read_conda_options((), ("channel",))


def test_says_which_scripts_were_not_run_and_what_the_image_has(capsys: pytest.CaptureFixture[str]) -> None:
    part = replace(PART, requirements=("samtools", "zlib"), packages=(replace(SAMTOOLS, not_run=("bin/x",)), HTSLIB))
    tell_conda(make_state(conda=part))
    assert capsys.readouterr().err.splitlines() == [
        "hpcmod: zlib is in the image",
        "hpcmod: samtools: its scripts were not run: bin/x",
    ]
