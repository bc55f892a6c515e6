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


def test_what_fast_leaves_out_is_told() -> None:
    calls = "tell_left_out 0; rooms=(-m fast); tell_left_out 0; tell_left_out 5 -k 'a or b'; tell_left_out 0 -m slow"
    sourced = f"""eval "$(sed 's/BASH_SOURCE.0./0/; $d' test)"; {calls}"""
    done = run(["bash", "-c", sourced], os.environ, CHECKOUT / "dev")
    assert done.stderr == (
        "test: without tests marked slow; to run these too: ./dev/test --fast -- -m 'not stack'\n"
        "test: no test ran; to run those marked slow, too: "
        "./dev/test --fast -- -m 'not stack' -k a\\ or\\ b\n"
    )


def test_only_the_last_of_what_failed_runs_have_left_is_kept(tmp_path: Path) -> None:
    gone = run(["bash", "-c", "echo $$"], os.environ).stdout.strip()
    names = (f"1-{gone}", f"2-{os.getpid()}", f"3-{gone}", f"4-{gone}", "5")
    left = {name: tmp_path / f"hpcmod-{name}" for name in names}
    for path in left.values():
        (path / "read-only").mkdir(parents=True)
        (path / "read-only").chmod(0o500)
    sourced = f"source lib/talk.sh; source lib/paths.sh; worker=$(id -un); remove_left {tmp_path} 1"
    run(["bash", "-euo", "pipefail", "-c", sourced], os.environ, CHECKOUT / "dev")
    assert [name for name, path in left.items() if path.exists()] == [f"2-{os.getpid()}", f"4-{gone}", "5"]
