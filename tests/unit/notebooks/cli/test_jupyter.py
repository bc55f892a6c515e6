from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.notebooks.cli import jupyter
from tests.calls import hpcmod
from tests.installations import install
from tests.programs import make_program


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation whose image has JupyterLab according to its record; a fake Slurm ends every job at once."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HPCMOD_SITE", "generic-nvidia")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'slurm'}:{os.environ['PATH']}")
    monkeypatch.setattr(jupyter, "_ASK", 0.1)
    monkeypatch.setattr(jupyter, "_LOOK", 0.1)
    install(tmp_path, "Lab/1.0")
    root = tmp_path / "software/Lab/1.0"
    record = json.loads((root / "record.json").read_text())
    packages = [{"name": "jupyterlab", "version": "4"}]
    (root / "record.json").write_text(json.dumps({**record, "packages": packages}))
    make_program(root / "in-environment", "#!/bin/sh\necho 'no JupyterLab in here' >&2; exit 3")
    submits = '[ "$1" = --test-only ] && exit 0; for last; do :; done; cp "$last" submitted.sh; echo 4711'
    make_program(tmp_path / "slurm/sbatch", f"#!/bin/sh\n{submits}")
    make_program(tmp_path / "slurm/squeue", "#!/bin/sh\necho 'error: Invalid job id specified' >&2; exit 1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_of_a_server_here_uses_the_gpus_of_the_site(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = top / "state/hpcmod/jupyter/session-%j"
    start = f"{top}/software/Lab/1.0/in-environment exec --bind {session} -- python {session}/server.py jupyterlab"
    assert hpcmod("jupyter", "Lab", "--here", "--dry-run").stdout == f"{start} local tied\n"
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # in a shell that salloc started on a login node
    planned = json.loads(hpcmod("jupyter", "Lab", "--here", "--dry-run", "--json").stdout)
    assert planned["script"] == f"srun --nodes=1 --ntasks=1 --overlap {start} node tied"


@pytest.mark.slow
def test_a_server_that_does_not_start_is_an_error(top: Path) -> None:
    code = "from hpcmod.core.cli.main import main; main()"
    words = [sys.executable, "-c", code, "jupyter", "Lab", "--here"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "did not start (exit code 3)" in done.stderr) == (1, True)
    assert list((top / "state/hpcmod/jupyter").iterdir()) == []


def test_a_job_that_ends_first_is_an_error_with_its_options_in_the_script(top: Path) -> None:
    done = hpcmod("jupyter", "Lab", "--", "-t", "01:00:00", "--gpus", "1")
    assert (done.exit_code, "job 4711 ended before its Jupyter server ran" in done.stderr) == (1, True), done.output
    script = (top / "submitted.sh").read_text()
    assert "#SBATCH --time=01:00:00" in script and "#SBATCH --job-name=jupyter" in script
    assert "jupyterlab node" in script
    assert list((top / "state/hpcmod/jupyter").iterdir()) == []


@pytest.mark.parametrize("options", [("-N", "2"), ("--salloc",), ("--", "train.py"), ("--array", "0-3")])
def test_job_options_for_something_else_are_refused(top: Path, options: tuple[str, ...]) -> None:
    assert hpcmod("jupyter", "Lab", "--", *options).exit_code == 2
    assert not (top / "submitted.sh").exists()


def test_job_options_with_here_and_those_before_the_dashes_are_refused(top: Path) -> None:
    assert hpcmod("jupyter", "Lab", "--here", "--", "-t", "5").exit_code == 2
    done = hpcmod("jupyter", "Lab", "-p", "small")
    assert done.exit_code == 2 and "'-p'. If it is for the job, put it after `--`." in done.stderr
    hpcmod("jupyter", "Lab", "--dry-run")
    assert hpcmod("job", "-h").exit_code == 0, "the help of job has both names afterwards"


def test_without_slurm_the_other_way_is_suggested(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(top))
    done = hpcmod("jupyter", "Lab")
    assert (done.exit_code, "hpcmod jupyter Lab --here" in done.stderr) == (7, True)
