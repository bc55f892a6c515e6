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
from hpcmod.catalogue.text.site_module import COMPLETION
from tests.catalogues import make_catalogue, make_record
from tests.stack import Stack, run

pytestmark = pytest.mark.stack

PATIENCE = 30.0
"""How long to wait for a shell before the test fails, in seconds."""

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-c"],
}
FIRST = {"zsh": "autoload -U compinit; compinit -u -D; "}
GONE = {
    "bash": "complete -p hpcmod || echo go''ne",
    "zsh": "echo ${_comps[hpcmod]:-go''ne}; (( $+functions[_hpcmod_completion] )) && echo lef''t",
    "fish": "complete | grep -q hpcmod; or echo gone",
}
"""What prints `gone` once the module is unloaded."""


def module_lines(tool: str, shell: str, stack: Stack) -> str:
    """Return the lines that give a shell the command `module`."""
    if tool == "lmod":
        return f"source {stack.lmod_init.with_name(shell)}"
    started = f"{stack.modulecmd} {shell}"
    if shell == "fish":
        return f"function module; eval ({started} $argv | string collect); end"
    return f'module() {{ eval "$({started} "$@")"; }}'


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


@pytest.fixture(params=["printed", "lmod", "Tcl for lmod", "envmodules"])
def starting(request: pytest.FixtureRequest, stack: Stack, environment: dict[str, str], tmp_path: Path) -> list[str]:
    """What starts completion in a shell, `SHELL` is its name, and what ends it."""
    if request.param == "printed":
        return ['hpcmod site completion SHELL > "$HOME/script"; source "$HOME/script"', "echo gone"]
    done = run(["hpcmod", "site", "setup", "--output", str(tmp_path / "site")], environment)
    assert done.returncode == 0, done.stderr
    if request.param == "Tcl for lmod":
        for path in tmp_path.glob("site/modules/hpcmod/*.lua"):
            path.unlink()
    environment["MODULEPATH"] = str(tmp_path / "site/modules")
    return [f"MODULE {request.param.rpartition(' ')[2]}; module load hpcmod", "module unload hpcmod; GONE"]


@pytest.mark.parametrize(("shell", "options"), [("bash", "-euc"), ("zsh", "-feuc"), ("fish", "-Nc")])
def test_a_job_that_inherits_the_module_unloads_it_silently(shell: str, options: str, stack: Stack) -> None:
    done = run([shell, options, f"{COMPLETION[shell][2]}; exit 0"], stack.environment(stack.root))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(shell: str, starting: list[str], stack: Stack, environment: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    start, end = (line.replace("SHELL", shell).replace("GONE", GONE[shell]) for line in starting)
    for tool in ("lmod", "envmodules"):
        start = start.replace(f"MODULE {tool}", module_lines(tool, shell, stack))
    if shell == "fish":
        asked = "; ".join(f"complete -C '{typed}'" for typed, _ in TYPED)
        done = run([*SHELLS[shell], f"{start}; {asked}; {end}"], environment)
        shown = done.stdout.splitlines()
        for wanted in (*(wanted for _, wanted in TYPED), "gone"):
            assert any(line.startswith(wanted) for line in shown), done.stdout + done.stderr
        return
    with terminal(SHELLS[shell], environment) as screen:
        os.write(screen, f"{FIRST.get(shell, '')}{start}; echo rea''dy\n".encode())
        wait_for(screen, "ready\r")
        for typed, wanted in TYPED:
            os.write(screen, f"{typed}\t".encode())
            wait_for(screen, wanted)
            os.write(screen, b"\x15")  # Ctrl-U: clear the line
        os.write(screen, f"{end}\n".encode())
        assert "left" not in wait_for(screen, "gone\r")
