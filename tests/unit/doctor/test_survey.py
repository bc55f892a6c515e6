"""Questions to a machine; tests/e2e/test_site_new.py asks a real scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.doctor.survey import find_evidence, name_machine, survey_here
from hpcmod.jobs.values.cluster import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """An environment with fakes of lscpu and apptainer on PATH, and no scheduler."""
    outputs = {"lscpu": "printf '0,0,0\\n1,1,0\\n'", "apptainer": "echo apptainer version 1.4.1"}
    for name, text in outputs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return {"PATH": str(tmp_path), "HOME": "/home/me", "LMOD_CMD": "/opt/lmod/lmod", "LMOD_VERSION": "8.7"}


def test_a_machine_without_a_scheduler_is_asked_itself(programs: dict[str, str]) -> None:
    found = find_evidence(programs, (), {})
    assert found.cluster is None
    assert found.silent == "no scontrol on this machine"
    assert [one.cores.cores for one in found.surveys if one.cores] == [2]
    assert (found.runtime, found.module_tool) == ("apptainer version 1.4.1", "Lmod 8.7")


def test_a_partition_cannot_be_asked_without_a_scheduler(programs: dict[str, str]) -> None:
    with pytest.raises(LackingError, match="no scheduler answers"):
        find_evidence(programs, ["gpu"], {})


def test_a_node_answers_in_plain_values(programs: dict[str, str]) -> None:
    found = json.loads(json.dumps(survey_here(programs)))
    assert found["texts"]["lscpu"] == "0,0,0\n1,1,0\n"
    assert found["facts"]["cpus"]["online"] > 0
    assert " / " in found["texts"]["mounts"]


def test_programs_do_not_read_the_script_that_calls_hpcmod(programs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "lscpu").write_text('#!/bin/sh\nread -r line; echo "$line"\n')
    code = f"from hpcmod.doctor.survey import survey_here; print(survey_here({programs})['texts']['lscpu'])"
    done = subprocess.run([sys.executable, "-c", code], input="next\n", capture_output=True, text=True, check=True)
    assert done.stdout == "\n\n"


def test_a_machine_is_named_after_its_cluster() -> None:
    assert name_machine(Cluster("ours")) == "ours"
    assert name_machine(None)
