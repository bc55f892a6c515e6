"""A run of the all-reduce: parsing its output as it arrives."""

from __future__ import annotations

import os

import pytest

from hpcmod.runs.network.program import DEBUG
from hpcmod.runs.network.run import environment, run_allreduce

OUTPUT = """\
echo 'a:1:1 [0] NCCL INFO Using network Socket'
echo 'hpcmod-allreduce {"rank": 0, "host": "n", "library": "gloo", "size": 1, "error": "", "seconds": 0.1}'
echo 'Traceback' >&2
exit 3
"""


@pytest.mark.slow
def test_sorts_the_lines_of_a_run() -> None:
    run = run_allreduce(["bash", "-c", OUTPUT], (), environ=os.environ)
    assert run.status == 3
    assert run.reading.values("network") == ("Socket",)
    assert [result.host for result in run.results.of("gloo")] == ["n"]
    assert run.said == ["Traceback"]


def test_libraries_are_asked_to_log_inside_the_container() -> None:
    made = environment({"A": "b", "NCCL_DEBUG": "WARN"})
    assert made["A"] == "b"
    for name, value in DEBUG.items():
        assert [made[f"{prefix}{name}"] for prefix in ("", "APPTAINERENV_", "SINGULARITYENV_")] == [value] * 3
