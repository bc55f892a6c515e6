"""How dev/demo shows a command."""

from __future__ import annotations

import os
import re

from tests.stack import CHECKOUT, Done, run


def show(*commands: str) -> Done:
    lines = "".join(f"show {command!r}\n" for command in commands)
    return run(["bash", "-c", f"set -euo pipefail\nsource {CHECKOUT}/dev/lib/show.sh\n{lines}"], os.environ)


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
