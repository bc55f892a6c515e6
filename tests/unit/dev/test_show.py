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


def show(*commands: str) -> Done:
    return run_lines("".join(f"show {command!r}\n" for command in commands))


def test_prints_the_command_its_output_and_its_time() -> None:
    done = show("echo one")
    assert re.fullmatch(r"\$ echo one\none\n  \[\d+\.\d s\]\n", done.stdout)


def test_commands_share_a_shell() -> None:
    assert "\n7\n" in show("x=7", "echo $x").stdout


def test_stops_at_a_failure_with_its_exit_code() -> None:
    done = show("(exit 7)", "echo never")
    assert done.returncode == 7
    assert "never" not in done.stdout
    assert "failed with exit code 7: (exit 7)" in done.stderr


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
