"""Options for conda packages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from hpcmod.cli.packages.conda import CondaWanted, read_conda_options, tell_conda
from hpcmod.errors import NotFoundError
from hpcmod.model.packages.conda import NO_CONDA, CondaPart
from tests.package_states import make_state
from tests.unit.model.packages.test_conda import HTSLIB, PART, SAMTOOLS


def test_options_become_requirements_and_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "channel").mkdir()
    url = (tmp_path / "channel").as_uri()
    assert read_conda_options((), ()) == CondaWanted()
    assert read_conda_options(("samtools",), ("channel",)).part == CondaPart(("samtools",), (url,))
    with pytest.raises(click.UsageError, match="--channel is for --conda"):
        read_conda_options((), ("channel",))


def test_an_environment_file_adds_its_packages_and_channels_and_its_part_for_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "env.yml").write_text(
        "channels: [bioconda]\ndependencies: [python=3.12, samtools, pip, {pip: [einops]}]\n"
    )
    found = read_conda_options(("env.yml", "htslib"), ("https://example.org/mine",))
    assert found.part == CondaPart(("htslib", "samtools"), ("https://example.org/mine", "bioconda"))
    assert found.pip.lines == ("einops",)
    assert [one.name for one in found.left_out] == ["python=3.12", "pip"]
    (tmp_path / "pip.yml").write_text("dependencies: [{pip: [einops]}]\n")
    assert read_conda_options(("pip.yml",), ()).part == NO_CONDA
    with pytest.raises(NotFoundError, match=r"missing\.yml"):
        read_conda_options(("missing.yml",), ())


def test_says_which_scripts_were_not_run_and_what_the_image_has(capsys: pytest.CaptureFixture[str]) -> None:
    part = replace(PART, requirements=("samtools", "zlib"), packages=(replace(SAMTOOLS, not_run=("bin/x",)), HTSLIB))
    tell_conda(make_state(conda=part))
    assert capsys.readouterr().err.splitlines() == [
        "hpcmod: zlib is in the image",
        "hpcmod: samtools: its scripts were not run: bin/x",
    ]
