from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.core.process import call, follow, run
from hpcmod.core.which import which
from tests.programs import make_program

pytestmark = pytest.mark.slow


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def follow_quietly(argv: list[str]) -> None:
    with follow(argv, env=os.environ):
        raise AssertionError("it cannot start")


def test_returns_the_status_and_both_outputs_apart() -> None:
    done = run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_arguments_reach_the_program_as_they_are() -> None:
    odd = ["a b", "$HOME", "`id`", "*", "'\"", "", "\n"]
    done = run([*python("import sys; print(sys.argv[1:], sys.stdin.read())"), *odd], stdin="some\ntext")
    assert done.stdout == f"{odd!r} some\ntext\n"


def test_output_that_is_not_a_text_is_shown_with_marks() -> None:
    done = run(python("import sys; sys.stdout.buffer.write(b'a\\xffb')"))
    assert done.stdout == "a\ufffdb"


def test_the_environment_given_is_the_whole_one() -> None:
    done = run(python("import os; print(sorted(n for n in os.environ if n != 'LC_CTYPE'))"), env={"ONLY": "this"})
    assert done.stdout == "['ONLY']\n"


def test_a_program_runs_in_a_directory_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert run(["true"]).status == 0


def test_a_program_that_dies_of_a_signal_has_a_negative_status() -> None:
    assert run(python("import os; os.kill(os.getpid(), 9)")).status == -9


@pytest.mark.parametrize("door", [run, call, partial(run, tied=True), follow_quietly])
def test_a_missing_program_is_reported_with_a_cure(door: Callable[[list[str]], object]) -> None:
    with pytest.raises(LackingError, match="no-such-program-anywhere") as caught:
        door(["no-such-program-anywhere"])
    assert "PATH" in caught.value.cure


def test_a_program_that_hangs_is_ended_and_the_limit_is_reported() -> None:
    with pytest.raises(LackingError, match=r"did not end within 0\.2 s"):
        run(python("import time; time.sleep(60)"), timeout=0.2)


def test_call_leaves_the_output_alone_and_returns_the_status(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os; print(os.environ['ONLY'], flush=True); raise SystemExit(4)"
    assert call(python(code), env={"ONLY": "this"}) == 4
    assert capfd.readouterr().out == "this\n"


def test_output_of_a_long_program_is_reported_and_logged_by_line(tmp_path: Path) -> None:
    code = "import sys; print('one', flush=True); print('two', file=sys.stderr); sys.exit(3)"
    with follow(python(code), env=os.environ, cwd=tmp_path) as program:
        told = list(program.lines(tmp_path / "log"))
    assert (program.status, told, (tmp_path / "log").read_text()) == (3, ["one", "two"], "one\ntwo\n")


def test_a_long_program_ends_with_all_it_started_when_we_are_interrupted(tmp_path: Path) -> None:
    argv = ["bash", "-c", "sleep 300 & echo $!; wait"]
    with pytest.raises(KeyboardInterrupt), follow(argv, env=os.environ) as program:
        (tmp_path / "pid").write_text(next(program.lines()))
        raise KeyboardInterrupt
    until = time.monotonic() + 20
    while runs(int((tmp_path / "pid").read_text())):
        assert time.monotonic() < until
        time.sleep(0.01)


CLOSED = ["sh", "-c", "exec >&- 2>&-; sleep 300"]


def test_a_long_program_that_closed_its_output_ends_when_we_are_interrupted() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), follow(CLOSED, env=os.environ) as program:
            assert list(program.lines()) == []
            signal.setitimer(signal.ITIMER_REAL, 0.2)  # while its end is awaited
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not runs(program.session)


def test_a_long_program_has_ended_also_when_it_left_one_behind_that_holds_its_output(tmp_path: Path) -> None:
    left = "import time; time.sleep(300)"
    code = f"""
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", {left!r}], start_new_session=True)
sys.stdout.write(f"{{left.pid}}\\nno end of line")
"""
    with follow(python(code), env=os.environ) as program:
        told = list(program.lines())
    assert program.status == 0
    assert runs(int(told[0])) and told[1:] == ["no end of line"]
    os.kill(int(told[0]), signal.SIGKILL)


def runs(pid: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program in the working directory, which must not be found by its bare name."""
    program = tmp_path / "planted"
    make_program(program, "#!/bin/sh\necho planted\n")
    monkeypatch.chdir(tmp_path)
    return program.name


@pytest.mark.parametrize("path", [".", "", ":/usr/bin", "/usr/bin::/bin", "./:/bin"])
def test_no_program_of_the_working_directory_is_started_by_its_name(planted: str, path: str) -> None:
    assert which(planted, {"PATH": path}) is None
    with pytest.raises(LackingError):
        run([planted], env={"PATH": path})
    assert run([f"./{planted}"], env={"PATH": path}).stdout == "planted\n"


@pytest.mark.parametrize(("door", "tied"), [("run", "True"), ("call", "True"), ("run", "signal.SIGKILL")])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_tied_program_ends_with_the_process_that_started_it(
    tmp_path: Path, door: str, tied: str, sent: signal.Signals
) -> None:
    there = tmp_path / "pid"
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " if tied != "True" and sent == signal.SIGKILL else ""
    child = f"import os, signal, time; {deaf}open({str(there)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    code = f"from hpcmod.core.process import {door}; {door}([sys.executable, '-c', {child!r}], tied={tied})"
    parent = subprocess.Popen(python(f"import signal, sys; {code}"))
    try:
        _wait_for(lambda: there.exists() and bool(there.read_text()))
        number = int(there.read_text())
    finally:
        parent.send_signal(sent)
        parent.wait()
    _wait_for(lambda: not Path(f"/proc/{number}").exists() or " Z " in Path(f"/proc/{number}/stat").read_text())


def _wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)
