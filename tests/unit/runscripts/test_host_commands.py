"""Host commands for programs in a container: what the helper outside runs, and the attacks that it refuses."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host_commands import Helper, framed, started
from tests.stack import until
from tests.unit.runscripts.scripts import SYSTEM_PATH, make_program

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helper]:
    with started(tmp_path_factory.mktemp("host"), SLURM_JOB_ID="7", SLURM_CONF="/real.conf", OWN="host") as helper:
        yield helper


def shown(helper: Helper, *words: str, **env: str) -> dict[str, Any]:
    done = helper.stub("show", *words, **env)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


def test_a_command_gets_its_arguments_directory_and_only_three_descriptors(helper: Helper) -> None:
    words = ["a b", "", "it's", "$(id)", "*", "-c", "--", "x\ny", "\udcff", "é"]
    ran = shown(helper, *words)
    assert (ran["argv"], ran["cwd"], ran["open"]) == (words, str(helper.top), ["0", "1", "2"])


def test_it_gets_the_environment_of_the_host_with_what_the_container_set_for_the_scheduler(helper: Helper) -> None:
    env = shown(helper, SLURM_NTASKS="2", LD_BIND_NOW="1", OWN="container")["env"]
    env.pop("LC_CTYPE", None)  # set by Python itself
    assert env == {
        "PATH": SYSTEM_PATH,
        "OWN": "host",
        "PWD": str(helper.top),
        "SLURM_NTASKS": "2",
        "SLURM_CONF": "/real.conf",
    }


def test_input_output_and_status_are_those_of_the_command(helper: Helper) -> None:
    with helper.start("sh", "-c", "cat; echo wrong >&2; exit 43", stdin=subprocess.PIPE) as process:
        assert process.communicate("in\n", timeout=20) == ("in\n", "wrong\n")
    assert process.returncode == 43


def test_a_command_that_a_signal_ended_is_reported_so(helper: Helper) -> None:
    assert helper.stub("sh", "-c", "kill -SEGV $$").returncode == -signal.SIGSEGV


@pytest.mark.parametrize("own_session", [False, True])
def test_a_signal_reaches_the_command_once(helper: Helper, own_session: bool) -> None:
    with helper.start("sleeper", start_new_session=own_session) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=20) == 41


def test_a_signal_to_the_whole_process_group_reaches_the_command_once(helper: Helper) -> None:
    trap = "trap 'echo got' USR1; trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done"
    with helper.start("sh", "-c", trap, preexec_fn=os.setpgrp) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGUSR1)
        assert process.stdout.readline() == "got\n"
        process.send_signal(signal.SIGTERM)  # after a signal that would otherwise be forwarded
        assert (process.stdout.read(), process.wait(timeout=20)) == ("", 3)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_ends_with_the_process_that_asked_for_it(helper: Helper, number: int) -> None:
    with helper.start("sh", "-c", "echo $$; exec sleep 30") as process:
        assert process.stdout
        command = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(timeout=20) == -number
    assert until(lambda: not Path(f"/proc/{command}").exists())


def test_the_directory_is_private_and_the_name_random(helper: Helper, tmp_path: Path) -> None:
    assert stat.S_IMODE(helper.directory.stat().st_mode) == 0o700
    with started(tmp_path) as other:
        assert other.directory.name != helper.directory.name


def test_everything_ends_with_the_container(tmp_path: Path) -> None:
    with started(tmp_path) as helper, helper.start("sh", "-c", "echo $$; trap '' TERM; sleep 3 & wait") as process:
        assert process.stdout
        command = int(process.stdout.readline())
        (tmp_path / "copy").write_bytes((helper.directory / "client").read_bytes())
        helper.container.kill()
        helper.container.wait()
        assert until(lambda: not helper.directory.exists())
        assert until(lambda: not Path(f"/proc/{command}").exists())
        helper.directory.mkdir()  # as by a program that kept the stub
        late = make_program(helper.directory / "touch", (tmp_path / "copy").read_text())
        done = subprocess.run([late, "ran"], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, helper.mark.exists()) == (7, False)
        assert "does not answer" in done.stderr


def deep(count: int) -> bytes:
    return b"[" * count + b"]" * count


ATTACKS: dict[str, tuple[Callable[[Helper], dict[str, Any]], str]] = {
    # other commands
    "a command that is not allowed": (lambda to: to.request(command="id"), "not allowed"),
    "the path of an allowed command": (lambda to: to.request(command="/usr/bin/touch"), "not allowed"),
    "an empty name": (lambda to: to.request(command=""), "not allowed"),
    "a null byte after the name": (lambda to: to.request(command="touch\0x"), "null byte"),
    # options that start programs
    "--prolog": (lambda to: to.request(arguments=["--prolog=/x", "ran"]), "option --prolog"),
    "--prolog and its value": (lambda to: to.request(arguments=["ran", "--prolog", "/x"]), "option --prolog"),
    "--prolog shortened": (lambda to: to.request(arguments=["--prol=/x", "ran"]), "option --prol"),
    "--task-epilog shortened": (lambda to: to.request(arguments=["--task-e", "/x", "ran"]), "option --task-e"),
    "--epilog after --": (lambda to: to.request(arguments=["-J", "--", "--epilog=/x", "ran"]), "option --epilog"),
    # arguments
    "a null byte in an argument": (lambda to: to.request(arguments=["ran\0x"]), "null byte"),
    "a number as argument": (lambda to: to.request(arguments=[1]), "not a list of bytes"),
    "a string of arguments": (lambda to: to.request(arguments="ran"), "wrong type"),
    "an argument that is too long": (lambda to: to.request(arguments=["x" * (1 << 17)]), "longer than"),
    "a character that is not a byte": (lambda to: to.request(arguments=["\u0441"]), "not a list of bytes"),
    # the directory
    "a directory that is only in the container": (lambda to: to.request(directory="/only/there"), "not the same"),
    "another directory under its name": (lambda to: to.request(directory="/etc"), "not the same"),
    "a relative directory": (lambda to: to.request(directory="."), "not the same"),
    "a file as directory": (lambda to: to.request(directory="/etc/passwd"), "not the same"),
    "a link to another directory": (lambda to: to.request(directory=linked(to, "/etc")), "not the same"),
    # the environment
    "a list as environment": (lambda to: to.request(environment=["X=1"]), "wrong type"),
    "a null byte in a variable": (lambda to: to.request(environment={"TERM": "x\0y"}), "null byte"),
    # the request
    "no JSON": (lambda to: to.ask(framed(b"touch ran")), "not valid JSON"),
    "bytes that are not ASCII": (lambda to: to.ask(framed(b"\xff" * 9)), "not valid JSON"),
    "deeply nested JSON": (lambda to: to.ask(framed(deep(200_000))), "not valid JSON"),
    "a list": (lambda to: to.ask(framed([])), "does not have the keys"),
    "a missing key": (lambda to: to.ask(framed({"command": "touch"})), "does not have the keys"),
    "one more key": (lambda to: to.request(more=True), "does not have the keys"),
    "a huge request": (lambda to: to.ask(struct.pack(">I", 0xFFFFFFFF) + b"x"), "larger than"),
    "a request just over the limit": (lambda to: to.ask(framed(b"[" + b" " * (1 << 20))), "larger than"),
    "two requests at once": (lambda to: to.ask(framed(to.valid) * 2), "more follows"),
    # descriptors
    "no descriptors": (lambda to: to.request(descriptors=0), "four descriptors"),
    "three descriptors": (lambda to: to.request(descriptors=3), "four descriptors"),
    "more descriptors than there is room for": (lambda to: to.request(descriptors=20), "four descriptors"),
    "a socket in place of the directory": (lambda to: with_socket(to), "not the same"),
}


def linked(to: Helper, target: str) -> str:
    link = to.top / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    return str(link)


def with_socket(to: Helper) -> dict[str, Any]:
    null = os.open(os.devnull, os.O_RDWR)
    with socket.socket(socket.AF_UNIX) as own:
        reply = to.request([null, null, null, own.fileno()])
    os.close(null)
    return reply


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_and_runs_nothing(helper: Helper, name: str) -> None:
    attack, message = ATTACKS[name]
    reply = attack(helper)
    assert message in reply.get("refused", f"not refused: {reply}")
    assert not helper.mark.exists()


def test_a_valid_request_runs(helper: Helper) -> None:
    """Otherwise, refused attacks would prove nothing."""
    assert helper.request() == {"exit": 0}
    helper.mark.unlink()


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "BASH_ENV", "ENV", "IFS", "HOME"),
        *("SLURM_CONF", "SLURM_PROLOG", "SLURM_TASK_EPILOG", "SLURM_SPANK_X", "SLURM_PLUGIN_DIR"),
        "HPCMOD_HOST_COMMANDS",
    ],
)
def test_a_variable_that_could_start_a_program_stays_as_it_is_outside(helper: Helper, name: str) -> None:
    script = f'test "${{{name}-}}" != planted'
    asked = {"command": "sh", "environment": {name: "planted"}, "arguments": ["-c", script]}
    assert helper.ask(framed({**helper.valid, **asked})) == {"exit": 0}


def test_a_request_without_an_end_does_not_block_others(helper: Helper) -> None:
    with helper.connect() as slow:
        slow.send(b"\0")
        assert helper.request() == {"exit": 0}
    helper.mark.unlink()


def test_signals_that_are_not_passed_are_ignored(helper: Helper) -> None:
    with helper.start("sleeper") as process, helper.connect() as other:
        assert process.stdout and process.stdout.readline() == "ready\n"
        other.send(bytes([signal.SIGKILL, 0, 255]))  # on another connection, and signals that no terminal sends
        assert process.poll() is None
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=20) == 41


def test_a_recorded_request_cannot_be_sent_to_another_helper(helper: Helper, tmp_path: Path) -> None:
    """A request contains no secret to steal: the directory protects it, and is different for each container."""
    with started(tmp_path) as other:
        assert "not the same" in other.ask(framed(helper.valid)).get("refused", "")
    assert not helper.mark.exists()
