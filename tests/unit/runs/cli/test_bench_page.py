"""The commands on the page about `hpcmod bench`, with a fake srun; tests/e2e/test_bench.py runs real ranks."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.unit.runs.cli.test_bench import HPE, srun, top
from tests.walkthroughs import blocks, text_of

__all__ = ["top"]

COMMANDS = [shlex.split(line)[1:] for block in blocks("bench", "console") for line in block.splitlines()]


@pytest.mark.slow
def test_the_commands_of_the_page_run(top: Path) -> None:
    srun(top)
    shutil.copy(HPE, "slurm-4711.out")
    assert len(COMMANDS) == 3
    for words in COMMANDS:
        done = hpcmod(*words)
        assert done.exit_code == 0, done.output
        assert done.stdout


def test_the_table_of_the_page_is_of_hpes_log(top: Path) -> None:
    printed = hpcmod("bench", "--read", HPE, "--site", "cray-ex-gh200").stdout
    rows = [row for block in blocks("bench", "text") for row in block.splitlines() if row.startswith("all_reduce")]
    # the log is of a single run, and does not say how many ranks each node has
    figures = [row.replace("+-1%", "-").replace("2x4", "2").split() for row in rows]
    assert all(row in [line.split() for line in printed.splitlines()] for row in figures) and len(rows) == 2
    shown, said = (re.findall(r"^ok +(all_reduce.*)$", text, re.MULTILINE) for text in (text_of("bench"), printed))
    assert shown == said
