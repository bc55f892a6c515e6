"""`--stage` of `hpcmod job` and `hpcmod launch`: the method, the destination, and the copies that a step uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.jobs.cli import staging
from tests.calls import hpcmod
from tests.unit.jobs.cli.test_job import ALLOCATION, LUMI, TakenOverError, nowhere

__all__ = ["nowhere"]

SITE = """
name = "ours"
[nodes.gpu]
memory_gib = 100
[stage.ram]
directory = "{top}/ram"
[stage.nvme]
directory = "{top}/$DISK"
flag = "-C nvme"
"""


@pytest.fixture
def site(tmp_path: Path) -> str:
    path = tmp_path / "site.toml"
    path.write_text(SITE.format(top=tmp_path))
    (tmp_path / "ram").mkdir()
    return str(path)


@pytest.mark.parametrize(
    ("place", "command"), [("ram", "stage-image {top}/ram)"), ("nvme", 'stage-image "{top}/$DISK")')]
)
def test_a_place_becomes_one_line_of_the_script(site: str, tmp_path: Path, place: str, command: str) -> None:
    done = hpcmod("job", "PyTorch", "--site", site, "-N", "2", "--stage", place, "--", "train.py")
    assert done.exit_code == 0, done.output
    assert f'staged=$("$RUNSCRIPTS"/{command.format(top=tmp_path)} || exit' in done.stdout
    assert ("#SBATCH -C nvme" in done.stdout) == (place == "nvme")


def test_off_is_the_default(site: str) -> None:
    scripts = [
        hpcmod("job", "PyTorch", "--site", site, "-N", "2", *words, "--", "train.py").stdout
        for words in ((), ("--stage", "off"))
    ]
    assert scripts[0] == scripts[1] != ""
    assert "stage" not in scripts[0]


def test_auto_says_why_in_the_script_and_to_the_user(site: str) -> None:
    done = hpcmod("job", "PyTorch", "--site", site, "-N", "64", "--stage", "auto", "--dry-run", "--", "train.py")
    why = "--stage auto: off, because the size of the image is not known here"
    assert f"\n# {why}\n" in done.stdout
    assert why in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--site", "lumi", "--stage", "nvme"), "Available: ram"),
        (("--stage", "rsync"), "not one of"),
    ],
)
def test_refuses_storage_that_the_nodes_do_not_have(site: str, words: tuple[str, ...], said: str) -> None:
    done = hpcmod("job", "PyTorch", "--site", site, *LUMI[2:], *words, "--", "train.py")
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a job with a loaded module, whose stage-image is a fake that copies on this node."""
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "stage-image"
    script.write_text(
        '#!/bin/bash\necho "$*" >>"$0.log"\n[[ ! ${REFUSE-} ]] || { echo "no space" >&2; exit; }\n'
        f'copy="$1/hpcmod-{os.getuid()}-7-1"\nmkdir -p "$copy" && cp "$SIF" "$copy"\n'
        'printf "export SIF=%q SIFPYTORCH=%q\\n" "$copy/${SIF##*/}" "$copy/${SIF##*/}"\n'
    )
    script.chmod(0o755)
    image = tmp_path / "an [image].sif"
    image.write_bytes(b"SIF")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("hpcmod.compat.read_image_mpi", lambda *_: "")
    variables = {"SIF": str(image), "SIFPYTORCH": str(image), "RUNSCRIPTS": str(script.parent)}
    return {**ALLOCATION, **variables, "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}


def run_launch(site: str, env: dict[str, str], *words: str) -> tuple[list[str], str]:
    """Return the command that replaces `hpcmod launch`, and what was printed to stderr."""
    done = hpcmod("launch", "--site", site, *words, "--", "train.py", **env)
    assert isinstance(done.exception, TakenOverError), done.output
    return done.exception.argv, done.stderr


def test_launch_starts_the_ranks_from_the_copies_and_uses_them_again(
    site: str, loaded: dict[str, str], tmp_path: Path
) -> None:
    argv, _ = run_launch(site, loaded, "--stage", "ram")
    copy = tmp_path / "ram" / f"hpcmod-{os.getuid()}-7-1" / "an [image].sif"
    assert str(copy) in argv and copy.is_file()
    again, said = run_launch(site, loaded, "--stage", "ram")
    assert str(copy) in again and "using the copies in" in said
    of_the_copy = {**loaded, "SIF": str(copy), "SIFPYTORCH": str(copy)}
    staged, _ = run_launch(site, of_the_copy, "--stage", "ram")
    assert str(copy) in staged
    assert (tmp_path / "scripts" / "stage-image.log").read_text() == f"{tmp_path}/ram\n"


def test_launch_uses_the_image_itself_if_it_cannot_be_staged(
    site: str, loaded: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    argv, _ = run_launch(site, {**loaded, "REFUSE": "1"}, "--stage", "ram")
    assert loaded["SIF"] in argv
    assert "no space" in capfd.readouterr().err


def test_launch_decides_and_says_why(site: str, loaded: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    argv, said = run_launch(site, loaded, "--stage", "auto")
    assert loaded["SIF"] in argv
    assert "--stage auto: off, because an image of " in said
    monkeypatch.setattr(staging, "find_file_system", lambda _: "nfs")
    monkeypatch.setattr("hpcmod.jobs.values.staging.SMALL", 0)
    monkeypatch.setattr("hpcmod.jobs.values.staging.LEAST_GAIN", -100.0)
    argv, said = run_launch(site, loaded, "--stage", "auto")
    assert loaded["SIF"] not in argv
    assert "copies: 3 s + " in said


def test_a_copy_of_another_size_is_not_used(site: str, loaded: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "ram" / f"hpcmod-{os.getuid()}-7-0"
    other.mkdir()
    (other / "an [image].sif").write_bytes(b"part")
    argv, _ = run_launch(site, loaded, "--stage", "ram")
    assert str(other) not in " ".join(argv)
