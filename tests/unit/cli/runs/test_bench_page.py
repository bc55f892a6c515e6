"""The commands on the page about `hpcmod bench`, with a fake srun; tests/e2e/test_bench.py runs real ranks."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.runs.test_bench import CORPUS, HPE, hpcmod, srun, top
from tests.walkthroughs import CHECKOUT, blocks, text_of

__all__ = ["top"]

PICTURE = CHECKOUT / "docs" / "how-to" / "bench.svg"
COMMANDS = [shlex.split(line)[2:] for block in blocks("bench", "console") for line in block.splitlines()]


@pytest.mark.slow
def test_the_commands_of_the_page_run(top: Path) -> None:
    srun(top, more="for rank in 0 1 2; do echo gemm $rank nid$rank 0 CPU 10; done")
    shutil.copy(HPE, "slurm-4711.out")
    shutil.copy(CORPUS / "marenostrum5.txt", "README.md")
    (top / "train.h5").touch()
    assert len(COMMANDS) == 7
    for words in COMMANDS:
        done = hpcmod(*(word.replace("/project/project_465000001", str(top)) for word in words))
        assert done.exit_code == 0, done.output
        assert done.stdout
    assert all((top / name).is_file() for name in ("report.html", "charts.svg", "bandwidth.sqlite"))


@pytest.mark.golden
def test_the_picture_is_the_chart_of_hpes_table(top: Path, golden: Callable[[Path, str], None]) -> None:
    assert hpcmod("--read", HPE, "--site", "cray-ex-gh200", "--svg", "charts.svg").exit_code == 0
    golden(PICTURE, (top / "charts.svg").read_text())


def test_the_table_of_the_page_is_of_hpes_log(top: Path) -> None:
    printed = hpcmod("--read", HPE, "--site", "cray-ex-gh200").stdout
    rows = [row for block in blocks("bench", "text") for row in block.splitlines() if row.startswith("all_reduce")]
    figures = [row.replace("+-1%", "-").split() for row in rows]  # the log is of a single run
    assert all(row in [line.split() for line in printed.splitlines()] for row in figures) and len(rows) == 2
    shown, said = (re.findall(r"^ok +(all_reduce.*)$", text, re.MULTILINE) for text in (text_of("bench"), printed))
    assert shown == said
