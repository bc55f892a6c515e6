"""A step with several tasks; a small script that starts them in turn replaces srun."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.runs.nodes.fanout import ask_tasks
from tests.programs import make_program

SRUN = """#!/bin/sh
# A fake srun that starts TASKS tasks on this machine.
for rank in $(seq 0 $((TASKS - 1))); do SLURM_PROCID=$rank "$@" & done
wait
"""
PROGRAM = """
import os, sys
text = '{"task": ' + os.environ["SLURM_PROCID"] + ', "words": "' + sys.argv[1] + ' "}'
pieces = [text[:5], text[5:]]
for number, piece in enumerate(pieces, 1):
    print("hpcmod %s %d/%d %s|" % (os.environ["SLURM_PROCID"], number, len(pieces), piece))
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    make_program(tmp_path / "srun", SRUN)
    (tmp_path / "python3").symlink_to(sys.executable)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TASKS": "3"}


pytestmark = pytest.mark.slow


def test_every_task_answers_in_the_order_of_the_ranks(environ: dict[str, str]) -> None:
    began = time.time()
    found = ask_tasks(["srun"], PROGRAM, "a b", environ=environ)
    assert [one.values["task"] for one in found.answers] == [0, 1, 2]
    assert found.answers[2].values == {"task": 2, "words": "a b "}
    assert all(began <= one.arrived <= time.time() for one in found.answers)
    assert (found.messages, found.status) == ((), 0)


def test_a_task_that_does_not_finish_its_answer_is_left_out(environ: dict[str, str]) -> None:
    program = PROGRAM.replace("for number", "if os.environ['SLURM_PROCID'] == '1': pieces.pop()\nfor number")
    program = program.replace("len(pieces)", "2")
    assert [one.values["task"] for one in ask_tasks(["srun"], program, "x", environ=environ).answers] == [0, 2]


def test_other_lines_are_messages(environ: dict[str, str]) -> None:
    program = (
        "import sys; print('srun: error: nid003 is down', file=sys.stderr); print('hpcmod 0 1/1 [1]|'); sys.exit(3)"
    )
    found = ask_tasks(["srun"], program, environ={**environ, "TASKS": "1"})
    assert (found.answers, found.messages) == ((), ("srun: error: nid003 is down",))


def test_the_hosts_python_runs_and_not_the_wrapper_of_a_loaded_module(environ: dict[str, str], tmp_path: Path) -> None:
    wrapper = make_program(tmp_path / "module" / "bin" / "python3", "#!/bin/sh\nexit 1\n")
    loaded = {"CONTAINERROOT": f"{tmp_path}/module", "PATH": f"{wrapper.parent}:{environ['PATH']}"}
    assert len(ask_tasks(["srun"], PROGRAM, "x", environ={**environ, **loaded}).answers) == 3


def test_a_missing_scheduler_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LackingError, match="srun"):
        ask_tasks(["srun"], PROGRAM, "x", environ={"PATH": str(tmp_path)})
