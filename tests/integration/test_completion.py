"""Shell completion of verbs and container names: bash and zsh at a terminal, fish through `complete -C`."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.catalogue.records.index import write_index
from tests.catalogues import make_catalogue, make_record
from tests.stack import Stack, run

pytestmark = pytest.mark.stack

PATIENCE = 30.0
"""How long to wait for a shell before the test fails, in seconds."""

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(hpcmod site completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(hpcmod site completion zsh)"'),
}


@pytest.fixture
def environment(stack: Stack, tmp_path: Path) -> dict[str, str]:
    """The environment of a user with a catalogue of three containers."""
    modules = ("PyTorch/2.7.1", "PyTorch/2.10.0", "vLLM/0.9")
    catalogue = make_catalogue(tmp_path / "site", *map(make_record, modules))
    write_index(catalogue)
    return stack.environment(
        tmp_path, HPCMOD_CATALOGUE=str(catalogue.directory), TERM="dumb", PS1="> ", HPCMOD_SITE="generic"
    )


@contextlib.contextmanager
def terminal(argv: list[str], env: dict[str, str]) -> Iterator[int]:
    """Start a shell in its own pseudo-terminal."""
    child, screen = pty.fork()
    if child == 0:
        os.execvpe(argv[0], argv, env)  # noqa: S606 - a shell of the test
    try:
        yield screen
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(screen)


def wait_for(screen: int, wanted: str) -> str:
    """Read from a terminal until the wanted text appears, and return everything read."""
    shown, end = b"", time.monotonic() + PATIENCE
    while wanted.encode() not in shown and time.monotonic() < end:
        if select.select([screen], [], [], 1)[0]:
            shown += os.read(screen, 4096).replace(b"\a", b"")  # readline rings the bell before its completion
    assert wanted in shown.decode(errors="replace"), shown
    return shown.decode(errors="replace")


TYPED = [("hpcmod exec --nv Py", "PyTorch/2."), ("hpcmod info vLLM/", "vLLM/0.9"), ("hpcmod laun", "launch")]
"""A name and then its versions, a version, and a verb."""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_at_a_terminal_completes(shell: str, environment: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    argv, setup = SHELLS[shell]
    with terminal(argv, environment) as screen:
        os.write(screen, f"{setup}; echo rea''dy\n".encode())
        wait_for(screen, "ready\r")
        for typed, wanted in TYPED:
            os.write(screen, f"{typed}\t".encode())
            wait_for(screen, wanted)
            os.write(screen, b"\x15")  # Ctrl-U: clear the line


def test_fish_completes(environment: dict[str, str]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish on this machine")
    asked = "; ".join(f"complete -C '{typed}'" for typed, _ in TYPED)
    done = run(["fish", "--no-config", "-c", f"hpcmod site completion fish | source; {asked}"], environment)
    for _, wanted in TYPED:
        assert any(line.startswith(wanted) for line in done.stdout.splitlines()), done.stdout + done.stderr
