"""Checks of the shell scripts in dev/ and of CI."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, run

SCRIPTS = sorted(path for path in (CHECKOUT / "dev").rglob("*") if path.is_file() and path.suffix in ("", ".sh"))
CI = CHECKOUT / ".ci" / "run"


@pytest.mark.parametrize("script", [*SCRIPTS, CI], ids=lambda path: str(path.relative_to(CHECKOUT)))
@pytest.mark.slow
def test_shellcheck_is_content(script: Path, shellcheck: Callable[..., str]) -> None:
    directory = CHECKOUT / script.relative_to(CHECKOUT).parts[0]
    assert shellcheck(directory, [str(script.relative_to(directory))], "--external-sources") == ""


@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.parent.name == "dev"], ids=lambda path: path.name)
def test_help_shows_how_to_call_it_and_no_shell(script: Path) -> None:
    done = run([str(script), "--help"], os.environ)
    assert done.returncode == 0
    assert done.stdout.startswith(f"dev/{script.name}")
    assert "shellcheck" not in done.stdout
    assert "set -euo" not in done.stdout


def test_what_fast_leaves_out_is_told_if_tests_are_chosen() -> None:
    calls = "rooms=(-m fast); tell_left_out; tell_left_out -k 'a or b'"
    sourced = f"""eval "$(sed 's/BASH_SOURCE.0./0/; $d' test)"; {calls}"""
    done = run(["bash", "-c", sourced], os.environ, CHECKOUT / "dev")
    assert done.stderr == (
        "test: without tests marked slow; to run these too: ./dev/test --fast -- -m 'not stack' -k a\\ or\\ b\n"
    )
