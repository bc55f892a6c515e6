"""Functions that run the scheduler's programs, with small scripts in place of Slurm's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import CheckFailedError, LackingError
from hpcmod.jobs import queue
from hpcmod.jobs.values.facts import JobFacts, JobFiles
from hpcmod.modules import step
from tests.programs import make_program


@pytest.fixture
def bin_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    return place


def fake(place: Path, name: str, code: str) -> None:
    make_program(place / name, f"#!/bin/sh\n{code}\n")


def test_without_slurm_answers_are_empty(bin_directory: Path) -> None:
    assert queue.test_script("#!/bin/bash", must=True) == ""
    assert queue.read_script_of_job("1") == ""
    assert step.find_check_step({"PATH": str(bin_directory)}) == ()
    assert queue.find_mpi_types({"PATH": str(bin_directory)}) is None


def test_the_answer_to_a_script_is_an_error_only_if_it_must_run(bin_directory: Path) -> None:
    fake(bin_directory, "sbatch", "echo 'sbatch: error: invalid account' >&2; exit 1")
    assert queue.test_script("#!/bin/bash", must=False) == "sbatch --test-only: invalid account"
    with pytest.raises(CheckFailedError, match="Slurm would not run it: invalid account"):
        queue.test_script("#!/bin/bash", must=True)
    fake(bin_directory, "sbatch", r"printf 'sbatch: error: %s\n' DNS 'Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(LackingError, match="Slurm does not answer: Unable"):
        queue.test_script("#!/bin/bash", must=True)
    assert queue.test_script("#!/bin/bash", must=False) == "Slurm does not answer: Unable to contact slurm controller"


def test_a_submitted_script_has_a_number_without_the_cluster(bin_directory: Path) -> None:
    fake(bin_directory, "sbatch", '[ "$*" = "--parsable --mem=0 a.sh" ] && echo "17;lumi"')
    assert queue.submit_script(Path("a.sh"), ["--mem=0"]) == "17"
    with pytest.raises(CheckFailedError, match=r"sbatch refused b\.sh"):
        queue.submit_script(Path("b.sh"))


def test_the_script_of_a_job_comes_from_the_accounting_if_the_job_is_gone(bin_directory: Path) -> None:
    fake(bin_directory, "scontrol", "echo 'Invalid job id specified' >&2; exit 1")
    fake(bin_directory, "sacct", "printf 'Batch Script for 7\\n---\\n#!/bin/bash\\nhostname\\n'")
    assert queue.read_script_of_job("7") == "#!/bin/bash\nhostname\n"


def test_a_job_that_left_the_queue_differs_from_a_slurm_that_does_not_answer(bin_directory: Path) -> None:
    fake(bin_directory, "squeue", "echo RUNNING")
    assert queue.find_state("7") == "RUNNING"
    fake(bin_directory, "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert queue.find_state("7") == ""
    fake(bin_directory, "squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    assert queue.find_state("7") == queue.NO_ANSWER


def test_srun_is_used_only_if_slurm_responds(bin_directory: Path) -> None:
    environ = {"PATH": str(bin_directory)}
    fake(bin_directory, "srun", "echo 'MPI plugin types are...'; echo pmix; echo pmi2; echo none")
    fake(bin_directory, "sinfo", "exit 1")
    assert step.find_check_step(environ) == ()
    fake(bin_directory, "sinfo", "exit 0")
    assert step.find_check_step(environ)[0] == str(bin_directory / "srun")
    assert queue.find_mpi_types(environ) == ("pmix", "pmi2")


def test_a_job_is_read_from_the_program_that_answers(bin_directory: Path) -> None:
    environ = {"PATH": str(bin_directory)}
    assert queue.read_job("7", environ) == (None, [])
    fake(bin_directory, "scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    fake(bin_directory, "sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    assert queue.read_job("7", environ) == (None, ["sacct: Slurm accounting storage is disabled"])
    fake(bin_directory, "scontrol", "echo 'JobId=7 JobState=RUNNING NumTasks=4'")
    facts, unknown = queue.read_job("7", environ)
    assert facts and (facts.number, facts.running, facts.tasks) == ("7", True, 4) and len(unknown) == 1


def test_nodes_are_asked_without_the_variables_of_our_own_job(bin_directory: Path) -> None:
    fake(bin_directory, "srun", 'echo "$SLURM_JOB_ID-$1-$*"; echo no >&2')
    environ = {"PATH": f"{bin_directory}:/usr/bin:/bin", "SLURM_JOB_ID": "1"}
    told = ("7", "", "RUNNING", "", 0, 0, "n[1-2]", 2, 2, "", "")
    job = JobFacts(*told, JobFiles(), running=True, waiting=False)
    output, errors = queue.ask_nodes(job, ["hostname"], environ, patience=20)
    assert output.startswith("---jobid=7-") and output.endswith(" hostname\n") and errors == "no\n"
