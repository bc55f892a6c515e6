"""Printing commands and their output in dev/demo."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, Done, run

RANK = "rank {} of 4 on nid001, local rank 0: sum 10, parameters equal after one step\n"


def run_lines(lines: str) -> Done:
    return run(["bash", "-c", f"set -euo pipefail\nsource {CHECKOUT}/dev/lib/show.sh\n{lines}"], os.environ)


def test_prints_commands_of_one_shell_with_output_and_time_and_stops_at_a_failure() -> None:
    done = run_lines("show 'x=7'\nshow 'echo $x'\nshow '(exit 7)'\nshow 'echo never'\n")
    assert re.search(r"\$ echo \$x\n7\n  \[\d+\.\d s\]\n", done.stdout) and "never" not in done.stdout
    assert (done.returncode, "failed with exit code 7: (exit 7)" in done.stderr) == (7, True)


@pytest.mark.parametrize(
    ("output", "ran"),
    [
        pytest.param("srun: error: task 0 launch failed: Slurmd could not set UID or GID\n", 0, id="none started"),
        pytest.param("", 0, id="nothing printed"),
        pytest.param("".join(map(RANK.format, range(3))), 3, id="one is missing"),
        pytest.param("".join(map(RANK.format, (0, 1, 2, 2))), 3, id="one printed twice"),
        pytest.param("rank 3: all-reduce gave 9\n" + "".join(map(RANK.format, range(3))), 3, id="one failed"),
    ],
)
def test_the_demo_fails_unless_all_ranks_ran(tmp_path: Path, output: str, ran: int) -> None:
    (tmp_path / "ranks").write_text(output)
    done = run_lines(f"require_ranks 4 {tmp_path}/ranks\necho Done")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"only {ran} of 4 ranks finished" in done.stderr


def test_the_demo_continues_when_all_ranks_ran(tmp_path: Path) -> None:
    (tmp_path / "ranks").write_text("".join(map(RANK.format, range(4))))
    assert run_lines(f"require_ranks 4 {tmp_path}/ranks\necho Done").stdout == "Done\n"
