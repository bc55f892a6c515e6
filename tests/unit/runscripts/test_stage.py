"""stage-image and stage-data on one node; srun is a fake. tests/e2e/test_stage.py uses several nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.runscripts.scripts import SYSTEM_PATH, Ran, Scripts, make_program

pytestmark = pytest.mark.slow

SRUN = """#!/bin/bash
# A fake srun on one node: the command gets our stdin and, with --error=none, no stderr.
while [[ $1 == -* ]]; do shift; done
SLURMD_NODENAME=nid001 exec "$@" 2>/dev/null
"""
SBCAST = """#!/bin/bash
# A fake sbcast on one node: copies the file, and damages the copy as SEND says.
[[ "$1 $2" == '--force --' ]] && /usr/bin/cp -- "$3" "$4" && eval "${SEND-:}"
"""
SPOIL = """#!/bin/bash
# In place of cp: damages the copy as SPOIL says.
/usr/bin/cp "$@" && eval "${SPOIL-:}"
"""


@dataclass(frozen=True)
class Stage:
    """Runs the stage scripts in a job; the test ends their keeper afterwards, as Slurm ends steps."""

    scripts: Scripts
    top: Path

    @property
    def place(self) -> Path:
        return self.top / "nvme"

    def __call__(self, name: str, *words: str | Path, job: Mapping[str, str] | None = None, **env: str) -> Ran:
        given = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SIFPYTORCH": str(self.top / "an image.sif")}
        given = given if job is None else dict(job)
        path = f"{self.top / 'bin'}:{SYSTEM_PATH}"
        return self.scripts(name, *map(str, words), env={**given, **env}, path=path)

    def keepers(self) -> list[int]:
        found = subprocess.run(["pgrep", "-f", "--", f"--keep {self.place}"], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def staged(self) -> list[Path]:
        """Return the staged files on the node."""
        return sorted(path for path in self.place.rglob("*") if path.is_file()) if self.place.is_dir() else []

    def end_job(self) -> None:
        for pid in self.keepers():
            os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            if not self.keepers():
                return
            time.sleep(0.05)
        raise AssertionError("a keeper outlives its job")


@pytest.fixture
def stage(scripts: Scripts, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(scripts, tmp_path)
    made.place.mkdir()
    make_program(tmp_path / "bin" / "srun", SRUN)
    make_program(tmp_path / "bin" / "sbcast", SBCAST)
    (tmp_path / "an image.sif").write_bytes(os.urandom(5000))
    yield made
    made.end_job()


def evaluated(code: str, *names: str, **env: str) -> list[str]:
    """Run the output of a script in a new shell, and return variables."""
    script = code + "".join(f'\nprintf "%s\\n" "${name}"' for name in names)
    done = subprocess.run(["bash", "-uc", script], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_variables_name_a_copy_that_is_the_image(stage: Stage) -> None:
    done = stage("stage-image", stage.place)
    sif, named = evaluated(done.stdout, "SIF", "SIFPYTORCH")
    assert sif == named
    assert Path(sif).name == "an image.sif" and stage.place in Path(sif).parents
    assert Path(sif).read_bytes() == (stage.top / "an image.sif").read_bytes()
    assert Path(sif).parent.stat().st_mode & 0o777 == 0o700


def test_nodes_copy_the_image_themselves_if_slurm_does_not_send_it(stage: Stage) -> None:
    done = stage("stage-image", stage.place, SEND="false")
    assert "each node copies the file itself" in done.stderr
    (sif,) = evaluated(done.stdout, "SIF")
    assert Path(sif).read_bytes() == (stage.top / "an image.sif").read_bytes()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        pytest.param({"SEND": 'truncate -s 4096 "$4"'}, "the copy of nid001 differs", id="cut short"),
        pytest.param({"SEND": 'printf XX | dd of="$4" seek=9 conv=notrunc'}, "the copy of nid001 differs", id="wrong"),
        pytest.param({"SEND": 'pkill -f -- "--keep ${4%/*} "; sleep 0.2'}, "a node ended before it", id="a node ends"),
        pytest.param({"SEND": "false", "SPOIL": "exit 1"}, "cannot copy ", id="cp fails"),
        pytest.param({"SEND": "false", "SPOIL": 'truncate -s 9 "${!#}"'}, "the copy of nid001 differs", id="wrong cp"),
    ],
)
def test_a_wrong_copy_is_reported_and_the_image_is_unchanged(stage: Stage, env: dict[str, str], said: str) -> None:
    make_program(stage.top / "bin" / "cp", SPOIL)
    done = stage("stage-image", stage.place, **env)
    assert (done.status, done.stdout) == (0, "")
    assert said in done.stderr
    assert "continuing without a staged image" in done.stderr
    assert list(stage.place.iterdir()) == []
    assert stage.keepers() == []


def test_a_missing_or_full_directory_is_reported(stage: Stage) -> None:
    assert "is not a directory that you may write to" in stage("stage-image", stage.top / "nowhere").stderr
    make_program(
        stage.top / "bin" / "df", "#!/bin/bash\n# Stands for df of a full disk.\nprintf 'a\\nx 9 9 3 9 /\\n'\n"
    )
    said = stage("stage-image", stage.place).stderr
    assert f"{stage.place} has 3 KiB free, but 4 are needed" in said
    assert list(stage.place.iterdir()) == []


def test_in_memory_there_must_be_as_much_of_it(stage: Stage) -> None:
    make_program(stage.top / "bin" / "stat", '#!/bin/bash\n# Stands for stat of a place in memory.\n'
                 '[[ $1 != -f ]] || { echo tmpfs; exit; }\nexec /usr/bin/stat "$@"\n')  # fmt: skip
    make_program(stage.top / "bin" / "awk", "#!/bin/bash\n# Stands for a node without free memory.\n"
                 '[[ ${!#} != /proc/meminfo ]] || { echo 2; exit; }\nexec /usr/bin/awk "$@"\n')  # fmt: skip
    assert "the node has 2 KiB of memory available, but 4 are needed" in stage("stage-image", stage.place).stderr


def test_two_calls_of_one_job_do_not_meet(stage: Stage) -> None:
    first, second = (evaluated(stage("stage-image", stage.place).stdout, "SIF")[0] for _ in range(2))
    assert Path(first).parent != Path(second).parent
    assert len(stage.staged()) == 2


@pytest.mark.parametrize("name", ["stage-image", "stage-data"])
def test_outside_a_job_it_stops_and_says_so(stage: Stage, name: str) -> None:
    words = [stage.place, *([stage.top / "an image.sif"] if name == "stage-data" else [])]
    done = stage(name, *words, job={"SIFPYTORCH": str(stage.top / "an image.sif")})
    assert (done.status, done.stdout) == (2, "")
    assert "not inside a Slurm job" in done.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param(["stage-image"], 2, id="no place"),
        pytest.param(["stage-image", "relative"], 2, id="a relative place"),
        pytest.param(["stage-image", "/a,b"], 2, id="a comma in the place"),
        pytest.param(["stage-data", "/tmp"], 2, id="no file"),
        pytest.param(["stage-data", "/tmp", "/nowhere.tar"], 3, id="no such file"),
        pytest.param(["stage-image", "--help"], 0, id="help"),
    ],
)
def test_refuses_unusable_input(stage: Stage, words: list[str], status: int) -> None:
    assert stage(*words).status == status


def test_staging_an_image_needs_a_module(stage: Stage) -> None:
    assert stage("stage-image", stage.place, job={"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1"}).status == 3


@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_an_archive_is_unpacked_and_bound_by_its_name(stage: Stage, suffix: str) -> None:
    (stage.top / "a file").write_text("of the set")
    archive = stage.top / f"my set.{suffix}"
    with tarfile.open(archive, "w:gz" if suffix.endswith("gz") else "w") as tar:
        tar.add(stage.top / "a file", "in/a file")
    done = stage("stage-data", stage.place, archive, APPTAINER_BINDPATH="/mine")
    ours, theirs = evaluated(done.stdout, "SINGULARITY_BINDPATH", "APPTAINER_BINDPATH")
    assert theirs == f"/mine,{ours}"
    source, destination = ours.split(":")
    assert destination == "/staged-data/my set"
    assert (Path(source) / "in" / "a file").read_text() == "of the set"


def test_a_squashfs_is_copied_else_mounted_from_where_it_is(stage: Stage) -> None:
    packed = stage.top / "set.squashfs"
    packed.write_bytes(os.urandom(100))
    (bind,) = evaluated(stage("stage-data", stage.place, packed).stdout, "APPTAINER_BINDPATH")
    assert bind.endswith("/data.squashfs:/staged-data/set:image-src=/") and bind.startswith(str(stage.place))
    done = stage("stage-data", stage.place, packed, SEND='truncate -s 9 "$4"')
    assert evaluated(done.stdout, "APPTAINER_BINDPATH") == [f"{packed}:/staged-data/set:image-src=/"]
    assert f"using {packed} itself" in done.stderr
