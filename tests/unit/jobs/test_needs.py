from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.values.facts import PythonFacts
from hpcmod.jobs.needs import find_missing, find_script
from hpcmod.jobs.values.request import JobContainer, JobRequest, Staging
from hpcmod.modules.installed import Installed, read_record
from hpcmod.modules.values.install_record import OwnPackages
from tests import corpus
from tests.package_states import EINOPS, TAG, make_state, write_set
from tests.programs import make_program

needs_mksquashfs = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a job, with a program and data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "data.tar").touch()
    return tmp_path


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """An installation whose image has Python and torchrun in the same directory, and gdb in /usr/local/bin."""
    root = tmp_path / "image"
    for name in ("opt/env/bin/torchrun", "usr/local/bin/gdb", "opt/app/run.py"):
        make_program(root / name, "#!/bin/sh\n")
    environment = root / ".singularity.d" / "env"
    environment.mkdir(parents=True)
    (environment / "10-docker2singularity.sh").write_text('export PATH="/opt/env/bin:/bound/bin:$PATH"\n')
    software = tmp_path / "software"
    software.mkdir()
    image = corpus.make_sif(software / "toy.sif", corpus.pack(root, tmp_path / "body").read_bytes())
    (software / "record.json").write_text(json.dumps({"image": {"path": str(image)}}))
    (software / "user-software/venv/toy/bin").mkdir(parents=True)
    (software / "user-software/venv/toy/bin/py-spy").touch()
    return Installed("Toy/1.0", tmp_path / "Toy/1.0.lua", software, read_record(software))


@pytest.mark.parametrize(
    ("program", "script"),
    [
        (("train.py", "--lr", "3"), "train.py"),
        (("python", "-u", "train.py"), "train.py"),
        (("-W", "ignore", "-u", "train.py", "x.py"), "train.py"),
        (("-X", "importtime", "train.py"), "train.py"),
        (("-m", "torch.distributed.run"), ""),
        (("-um", "pytest"), ""),
        (("-c", "print(1)"), ""),
        (("-uc", "print(1)"), ""),
        (("python",), ""),
        (("-",), ""),
    ],
)
def test_the_file_that_python_runs_is_found_among_its_options(program: tuple[str, ...], script: str) -> None:
    assert find_script(program) == script


def test_a_command_that_only_the_module_has_is_known(installed: Installed) -> None:
    make_program(installed.root / "runscripts/bin/mesh", "#!/bin/bash\n")
    assert find_missing(JobRequest(("mesh", "a.txt")), installed) == ()


def test_accepts_existing_files(here: Path) -> None:
    request = JobRequest(("train.py",), staging=Staging(data=("data.tar", "$SCRATCH/x.tar")))
    assert find_missing(request, None) == ()


def test_missing_programs_and_data_are_reported_with_the_nearest_names() -> None:
    request = JobRequest(("trian.py",), staging=Staging(data=("nope.squashfs", "data.tgz")))
    program, data, near = find_missing(request, None)
    assert program == ("program trian.py not found", "Did you mean train.py?")
    assert data[0] == "data file nope.squashfs not found" and data[1].startswith("Looked in /")
    assert near[1] == "Did you mean data.tar?"


@pytest.mark.parametrize(
    ("path", "binds"),
    [
        pytest.param("/workdir/train.py", (".:/workdir",), id="bind"),
        pytest.param("/a/b/train.py", (".:/a/b:ro",), id="bind with options"),
        pytest.param("$HOME/train.py", (), id="variable"),
        pytest.param("/staged-data/data/train.py", (), id="staged"),
    ],
)
def test_a_program_is_looked_for_where_the_job_shows_it(path: str, binds: tuple[str, ...]) -> None:
    assert find_missing(JobRequest((path,), container=JobContainer(binds=binds)), None) == ()


def test_a_program_is_looked_for_from_where_the_job_starts(here: Path) -> None:
    (here / "run").mkdir()
    request = JobRequest(("train.py",), more=("--chdir=run",))
    assert [found for found, _ in find_missing(request, None)] == ["program train.py not found"]


@needs_mksquashfs
def test_commands_of_the_image_and_of_the_user_are_known(installed: Installed) -> None:
    for command in ("torchrun", "gdb", "py-spy", "/opt/app/run.py", "/usr/local/bin/gdb"):
        assert find_missing(JobRequest((command,)), installed) == ()


@needs_mksquashfs
def test_a_missing_command_is_reported_with_the_nearest_one(installed: Installed) -> None:
    assert find_missing(JobRequest(("torchrum",)), installed) == (
        ("command torchrum not found in Toy/1.0", "Did you mean torchrun?"),
    )
    assert find_missing(JobRequest(("/opt/app/other.py",)), installed)


@needs_mksquashfs
def test_a_command_may_be_added_or_be_in_packages_that_the_user_added(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = PythonFacts("/usr/bin/python3.12", "3.12", "/usr")
    own = OwnPackages("Toy", TAG, "/user-software/venv/toy", python)
    toy = replace(installed, record=replace(installed.record, own_packages=own))
    monkeypatch.setenv("HPCMOD_PACKAGES_DIR", str(tmp_path))
    ((_, cure),) = find_missing(JobRequest(("scalene",)), toy)
    assert cure == "If it is in a Python package, add that: hpcmod add Toy/1.0 scalene"
    write_set(tmp_path / "packages/Toy/default", make_state(1, EINOPS))
    assert find_missing(JobRequest(("scalene",)), toy) == ()
    monkeypatch.setenv("HPCMOD_PACKAGES", "none")
    assert len(find_missing(JobRequest(("scalene",)), toy)) == 1


@needs_mksquashfs
def test_packages_in_a_squashfs_may_hold_any_command(installed: Installed) -> None:
    (installed.root / "user-software.squashfs").touch()
    assert find_missing(JobRequest(("torchrum",)), installed) == ()
