"""Options that name packages, and say where pip finds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from hpcmod.core.errors import NotFoundError
from hpcmod.packages.cli.wanted import WantedFlags, read_wanted, tell_conda
from hpcmod.packages.values.conda import NO_CONDA, CondaPart
from hpcmod.packages.values.lockfile import render_package_lock
from hpcmod.packages.values.plan import PipOptions
from tests.calls import hpcmod
from tests.package_states import NEEDY, make_state
from tests.unit.packages.values.test_conda import HTSLIB, PART, SAMTOOLS

NONE = WantedFlags(None, (), (), False, False, (), (), (), (), None)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_options_become_words_for_pip(tmp_path: Path) -> None:
    flags = replace(
        NONE,
        index="https://example.org/simple",
        extra_index=("https://example.org/more",),
        wheel_dirs=(tmp_path,),
        no_index=True,
        build=True,
    )
    words = (
        "--index-url=https://example.org/simple",
        "--extra-index-url=https://example.org/more",
        f"--find-links={tmp_path}",
        "--no-index",
    )
    assert flags.pip_options() == PipOptions(words, build=True)


@pytest.mark.parametrize(
    "words",
    [
        ("add", "PyTorch", "x", "--dry-run"),
        ("drop", "PyTorch", "einops", "--dry-run"),
        ("bake", "base.sif", "-r", "requirements.txt", "-o", "new.sif"),
    ],
)
def test_a_missing_directory_of_wheels_is_reported(home: Path, here: Path, words: tuple[str, ...]) -> None:
    (here / "requirements.txt").write_text("einops\n")
    (here / "base.sif").touch()
    done = hpcmod(*words, "--wheel-dir", "nowhere")
    assert (done.exit_code, "--wheel-dir nowhere: no such directory" in done.stderr) == (3, True), done.output


def test_options_become_requirements_and_channels(here: Path) -> None:
    (here / "channel").mkdir()
    url = (here / "channel").as_uri()
    assert not read_wanted(NONE).adds
    assert read_wanted(NONE, ["einops"]).adds
    flags = replace(NONE, conda=("samtools",), channels=("channel",))
    assert read_wanted(flags).conda == CondaPart(("samtools",), (url,))
    with pytest.raises(click.UsageError, match="--channel is for --conda"):
        read_wanted(replace(NONE, channels=("channel",)))


def test_an_environment_file_adds_its_packages_and_channels_and_its_part_for_pip(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "env.yml").write_text(
        "channels: [bioconda]\ndependencies: [python=3.12, samtools, pip, {pip: [einops]}]\nvariables: {A: b}\n"
    )
    flags = replace(NONE, conda=("env.yml", "htslib"), channels=("https://example.org/mine",))
    wanted = read_wanted(flags)
    assert wanted.conda == CondaPart(("htslib", "samtools"), ("https://example.org/mine", "bioconda"))
    assert wanted.added.lines == ("einops",)
    said = capsys.readouterr().err
    assert "left out: python=3.12" in said and "left out: pip" in said and "left out: variable A" in said
    assert read_wanted(flags, own=True).conda.names >= {"python", "pip"}
    (here / "pip.yml").write_text("dependencies: [{pip: [einops]}]\n")
    assert read_wanted(replace(NONE, conda=("pip.yml",))).conda == NO_CONDA
    with pytest.raises(NotFoundError, match=r"missing\.yml"):
        read_wanted(replace(NONE, conda=("missing.yml",)))


def test_a_lock_names_all_packages_and_nothing_else_is_given(here: Path) -> None:
    line = f"{NEEDY.pin} --hash=sha256:{NEEDY.sha256}"
    (here / "pylock.toml").write_text(render_package_lock(make_state(1, NEEDY, allowed=("torch",))))
    flags = replace(NONE, lock_file="pylock.toml", allow_replace=("numpy",))
    wanted = read_wanted(flags)
    assert (wanted.added.lines, wanted.locked) == (("needy",), (line,))
    assert wanted.allowed == ("numpy", "torch")
    for more in ({"conda": ("x",)}, {"channels": ("x",)}, {"requirement_files": ("x",)}):
        with pytest.raises(click.UsageError, match="give no others"):
            read_wanted(replace(flags, **more))  # type: ignore[arg-type]
    with pytest.raises(click.UsageError, match="give no others"):
        read_wanted(flags, ["einops"])


def test_says_which_scripts_were_not_run_and_what_the_image_has(capsys: pytest.CaptureFixture[str]) -> None:
    part = replace(PART, requirements=("samtools", "zlib"), packages=(replace(SAMTOOLS, not_run=("bin/x",)), HTSLIB))
    tell_conda(make_state(conda=part))
    assert capsys.readouterr().err.splitlines() == [
        "hpcmod: zlib is in the image",
        "hpcmod: samtools: its scripts were not run: bin/x",
    ]
