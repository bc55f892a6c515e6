from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files
from hpcmod.machine.values.tables import Caches, ModuleRules
from tests.unit.runscripts.scripts import DISTRIBUTED, Rank, Scripts, make_program, task

pytestmark = pytest.mark.slow


def test_caches_are_private_and_of_the_user_the_job_and_the_node(rank: Rank, tmp_path: Path) -> None:
    (path,) = rank.sees(task(3), "MIOPEN_USER_DB_PATH")
    assert path == str(tmp_path / "caches" / "alice-hpcmod-4711-nid002" / "miopen")
    assert Path(path).is_dir() and Path(path).parent.stat().st_mode & 0o777 == 0o700


def test_a_second_rank_finds_the_caches_as_they_are(rank: Rank, tmp_path: Path) -> None:
    rank(task(0))
    kept = tmp_path / "caches" / "alice-hpcmod-4711-nid001" / "triton" / "kernel"
    kept.write_text("compiled")
    assert rank(task(1)).stderr == "" and kept.read_text() == "compiled"


def test_many_ranks_may_start_at_once(scripts: Scripts, python_path: str, tmp_path: Path) -> None:
    script = str(scripts.root / "runscripts" / DISTRIBUTED)
    root = {"PATH": python_path, "HPCMOD_CACHE_ROOT": str(tmp_path / "together")}
    started = [
        subprocess.Popen(
            [script], env={**root, **task(number, (16,))}, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for number in range(16)
    ]
    assert [(process.communicate()[1], process.returncode) for process in started] == [("", 0)] * 16


@pytest.mark.parametrize("user", ["", "../root", "a b", "$(id)", "a/b", "größe"])
def test_an_odd_user_name_is_replaced_by_the_number(rank: Rank, user: str, tmp_path: Path) -> None:
    expected = str(tmp_path / "caches" / f"{os.getuid()}-hpcmod-4711-nid001" / "triton")
    assert rank.sees(task(0, USER=user, LC_ALL="C"), "TRITON_CACHE_DIR") == (expected,)


@pytest.mark.parametrize(
    ("env", "job"),
    [
        ({"PBS_JOBID": "4711.pbs-01"}, "4711.pbs-01"),
        ({"LSB_JOBID": "4711"}, "4711"),
        ({"FLUX_JOB_ID": "f2SEXr"}, "f2SEXr"),
        ({"PBS_JOBID": "4711", "SLURM_JOB_ID": "12"}, "12"),
        ({}, "nojob"),
    ],
)
def test_recognizes_jobs_of_every_scheduler(rank: Rank, env: dict[str, str], job: str, tmp_path: Path) -> None:
    (path,) = rank.sees(env, "TRITON_CACHE_DIR")
    assert path == f"{tmp_path}/caches/alice-hpcmod-{job}-0/triton"


def test_a_job_whose_name_is_not_a_file_name_gets_a_number(rank: Rank) -> None:
    paths = [rank.sees({"FLUX_JOB_ID": name}, "TRITON_CACHE_DIR")[0] for name in ("\u01922SEXr", "\u01922SEXs", "../x")]
    assert len(set(paths)) == 3 and all(re.fullmatch(r".*-hpcmod-\d+-0/triton", path or "") for path in paths)


def test_a_cache_root_with_blanks_and_quotes_is_taken_as_it_is(rank: Rank, tmp_path: Path) -> None:
    root = tmp_path / "my 'own' $(touch pwned) caches"
    (path,) = rank.sees(task(0, HPCMOD_CACHE_ROOT=str(root)), "CUDA_CACHE_PATH")
    assert path == f"{root}/alice-hpcmod-4711-nid001/cuda" and Path(path).is_dir()


@pytest.fixture(params=["link", "file"])
def stolen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The path of the caches, already taken by someone else."""
    (tmp_path / "caches").mkdir()
    (tmp_path / "elsewhere").mkdir()
    name = tmp_path / "caches" / "alice-hpcmod-4711-nid001"
    if request.param == "link":
        name.symlink_to(tmp_path / "elsewhere")
    else:
        name.touch()
    yield name
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_name_that_another_user_took_is_not_used(rank: Rank, stolen: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    ran = rank(task(0, TMPDIR=str(tmp_path / "tmp")))
    path = Path(ran.environment["TRITON_CACHE_DIR"])
    assert path.is_dir() and path.parent.parent == tmp_path / "tmp" and path.parent.stat().st_mode & 0o777 == 0o700
    assert ran.status == 0 and ran.stderr.startswith(f"{DISTRIBUTED}: {stolen} is not a private directory of yours")


def test_a_directory_that_a_group_may_write_is_not_used(rank: Rank, tmp_path: Path) -> None:
    """Another member of the group can rename it to the path of the caches, with links in it."""
    renamed = tmp_path / "caches" / "alice-hpcmod-4711-nid001"
    renamed.mkdir(parents=True)
    (tmp_path / "thesis.txt").write_text("mine")
    (renamed / ".space").symlink_to(tmp_path / "thesis.txt")
    renamed.chmod(0o2775)
    ran = rank(task(0, TMPDIR=str(tmp_path)))
    assert ran.status == 0 and f"{renamed} is not a private directory of yours" in ran.stderr
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("parent", "mode", "asked", "used"),
    [
        pytest.param(0o1777, 0o4700, False, True, id="created by another rank"),
        pytest.param(0o1777, 0o700, True, True, id="by another program"),
        pytest.param(0o1777, 0o770, True, False, id="open to a group"),
        pytest.param(0o777, 0o4770, True, False, id="where others can rename it"),
    ],
)
def test_a_process_looks_at_the_mode_unless_a_rank_has_marked_it(
    rank: Rank, python_path: str, tmp_path: Path, parent: int, mode: int, asked: bool, used: bool
) -> None:
    caches = tmp_path / "caches" / "alice-hpcmod-4711-nid001"
    caches.mkdir(parents=True)
    caches.chmod(mode)
    caches.parent.chmod(parent)
    make_program(tmp_path / "tools" / "ls", f'#!/bin/bash\n: >{tmp_path}/asked\nexec /bin/ls "$@"\n')
    rank.path = f"{tmp_path}/tools:{python_path}"
    ran = rank(task(0, TMPDIR=str(tmp_path)))
    assert (tmp_path / "asked").exists() is asked
    assert ran.environment["TRITON_CACHE_DIR"].startswith(f"{caches}/") is used


def test_ranks_mark_what_they_create_in_a_sticky_directory(rank: Rank, tmp_path: Path) -> None:
    (tmp_path / "caches").mkdir()
    (tmp_path / "caches").chmod(0o1777)
    rank(task(0))
    assert (tmp_path / "caches" / "alice-hpcmod-4711-nid001").stat().st_mode & 0o7777 == 0o4700


def test_only_one_rank_of_a_node_tells_that_the_caches_moved(rank: Rank, stolen: Path, tmp_path: Path) -> None:
    assert rank(task(1, TMPDIR=str(tmp_path))).stderr == ""


@pytest.fixture
def directory_of_another_user(tmp_path: Path) -> Path:
    """The root directory; for root, a directory of another user."""
    if os.geteuid() != 0:
        return Path("/")
    os.chown(tmp_path, 12345, 12345)
    return tmp_path


def test_a_directory_of_another_user_is_not_used(directory_of_another_user: Path) -> None:
    part = runscript_files()["lib/common.bash"]
    assert subprocess.run(["bash", "-c", f'{part}\nis_private "$1"', "bash", directory_of_another_user]).returncode == 1


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A cache directory where directories can be created but nothing can be written: its file of 4 kB is /dev/full."""
    place = tmp_path / "caches" / "alice-hpcmod-4711-nid001"
    place.mkdir(parents=True, mode=0o700)
    (place / ".space").symlink_to("/dev/full")
    return place


def test_where_the_place_for_caches_is_full_another_one_is_taken(rank: Rank, full: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    ran = rank(task(0, TMPDIR=str(tmp_path / "tmp")))
    assert ran.stderr.startswith(f"{DISTRIBUTED}: {full} is full; the caches are in {tmp_path}/tmp/")
    assert ran.environment["TRITON_CACHE_DIR"].startswith(f"{tmp_path}/tmp/")


def test_where_every_place_for_caches_is_full_that_is_reported(rank: Rank, full: Path, tmp_path: Path) -> None:
    ran = rank(task(0, TMPDIR=str(tmp_path / "nowhere")))
    assert (ran.status, ran.stdout) == (7, "")
    assert f"{full} is full, and {tmp_path}/nowhere/" in ran.stderr and "Set HPCMOD_CACHE_ROOT" in ran.stderr


def test_where_the_user_has_all_caches_none_is_made(rank: Rank, tmp_path: Path) -> None:
    seen = rank(task(0)).environment
    own = {name: "/mine" for name, value in seen.items() if "-hpcmod-4711-" in value}
    rank(task(0, HPCMOD_CACHE_ROOT=str(tmp_path / "other"), **own))
    assert not (tmp_path / "other").exists()


LARGE = ("HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME")


def large(rank: Rank, root: str, **env: str) -> tuple[str | None, ...]:
    rank.scripts.change_site(module=ModuleRules(caches=Caches(root=root)))
    return rank.sees(env, *LARGE)


def test_models_and_data_sets_are_kept_where_the_site_says(rank: Rank, tmp_path: Path) -> None:
    (tmp_path / "project_1").mkdir()
    found = large(rank, f"{tmp_path}/$SLURM_JOB_ACCOUNT/${{USER}}", SLURM_JOB_ACCOUNT="project_1")
    root = f"{tmp_path}/project_1/alice"
    assert found == (f"{root}/huggingface", f"{root}/torch", root)
    own = large(rank, str(tmp_path / "all"), HF_HOME="/mine", XDG_CACHE_HOME="/own")
    assert own == ("/mine", f"{tmp_path}/all/torch", "/own")


@pytest.mark.parametrize(
    "root",
    [
        pytest.param("", id="the site says nothing"),
        pytest.param("/nowhere/at/all", id="not there"),
        pytest.param("/tmp/$SLURM_JOB_ACCOUNT/x", id="a variable that is not set"),
        pytest.param("$(touch pwned)/x", id="a command"),
        pytest.param("tmp/$USER", id="no absolute path"),
    ],
)
def test_otherwise_they_are_left_where_they_are(rank: Rank, root: str) -> None:
    assert large(rank, root) == (None, None, None) and not Path("pwned").exists()
