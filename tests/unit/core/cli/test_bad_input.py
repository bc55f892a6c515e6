"""Every verb with every kind of bad file: it ends soon, with a documented exit code and no traceback."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner

from hpcmod.core.cli.main import main
from tests.calls import all_commands

pytestmark = pytest.mark.slow

SECONDS = 20
MEMORY = 1 << 30
"""Bytes of address space that a verb may use in addition to what the tests already use."""
SETTINGS = {
    "HPCMOD_LOCK": ["build", "pytorch-rocm", "--dry-run", "--offline"],
    "HPCMOD_SITE": ["site", "show"],
    "HPCMOD_CATALOGUE": ["ls"],
    "HPCMOD_CACHE": ["cache", "ls"],
}
"""Variables that name a file or a directory, each with a command line that reads it."""


def write(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "empty": write(b""),
    "directory": Path.mkdir,
    "fifo": os.mkfifo,
    "socket": bind,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "null": lambda path: path.symlink_to("/dev/null"),
    "own memory": lambda path: path.symlink_to("/proc/self/mem"),
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to root": lambda path: path.symlink_to("/"),
    "sparse": sparse,
    "unreadable": lambda path: path.touch(mode=0),
    "latin1": write("name = 'é'\n".encode("latin1")),
    "utf16": write("name = 'x'\n".encode("utf-16")),
    "byte order mark": write(b"\xef\xbb\xbfname = 'x'\n"),
    "surrogate": write(b"\xed\xa0\x80\n"),
    "nul": write(b"name = 'a\0b'\n"),
    "control": write(b"\x1b]0;x\x07\n"),
    "nested toml": write(b"a = " + b"[" * 100_000 + b"]" * 100_000),
    "nested json": write(b'{"a":' * 100_000),
    "nested python": write(b"name = " + b"(" * 100_000),
    "one line": write(b"x" * 5_000_000),
    "many lines": write(b"#SBATCH x\n" * 300_000),
    "number": write(b"name = " + b"9" * 100_000),
    "elf": write(b"\x7fELF" + bytes(100)),
    "sif": write(b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0" + b"\xff" * 5000),
    "gzip": write(b"\x1f\x8b" + bytes(100)),
    "tar": write(b"x" * 512),
}
SUFFIXES = (".sif", ".eb", ".toml", ".sh")
BY_NAME = ("bake", "build", "bundle", "doctor", "fetch", "info", "install", "job", "lint", "publish")
"""Verbs that read a file according to its suffix: they get each kind of bad file, with the suffixes in turn.

Other verbs get every fourth kind: they read files with the same functions.
"""


COMMANDS = {line: command for line, command in all_commands() if not isinstance(command, click.Group)}


def lines_of(name: str, path: str) -> Iterator[list[str]]:
    """Yield command lines of a verb with a file as its argument, and in each option that takes one."""
    command = COMMANDS[name]
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    given = [path for one in arguments if one.required or one.nargs == 1 or name == "doctor"]
    yield [*name.split(), *given]
    for option in command.params:
        takes_file = isinstance(option.type, click.Path) or any(
            word in str(option.metavar) for word in ("FILE", "DIRECTORY")
        )
        if isinstance(option, click.Option) and takes_file:
            yield [*name.split(), option.opts[0], path, *("missing" for _ in given)]


def too_slow(*_: object) -> NoReturn:
    pytest.fail(f"takes longer than {SECONDS} s")


@pytest.fixture(autouse=True)
def without_eb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace `eb`: it gets only easyconfigs in UTF-8, and EasyBuild reports errors in their contents itself."""
    monkeypatch.setattr("hpcmod.modules.shared_prefix.call_eb", lambda *_, **__: 1)


@pytest.fixture(autouse=True)
def doctor_of_paths_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit `doctor` to its arguments: skip the checks of this machine, and most of the files below /."""
    monkeypatch.setattr("hpcmod.doctor.cli.doctor.check_machine", lambda *_: iter(()))
    monkeypatch.setattr("hpcmod.doctor.security._MOST", 1000)


@pytest.fixture(autouse=True)
def bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use a separate home directory, and limit time and memory."""
    (tmp_path / "home").mkdir()
    for name in [name for name in os.environ if name.startswith(("HPCMOD_", "XDG_", "SLURM_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home")
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    handler = signal.signal(signal.SIGALRM, too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(autouse=True)
def first_files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit directory listings to 1,000 files: there may be millions below /."""
    whole = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda path, pattern: islice(whole(path, pattern), 1000))


def suffix_of(kind: str, name: str) -> str:
    """Return the suffix of a verb's bad file of one kind; empty if it gets none."""
    number = list(KINDS).index(kind) + list(COMMANDS).index(name)
    if name.split()[0] not in BY_NAME:
        return "" if number % 4 else SUFFIXES[number // 4 % len(SUFFIXES)]
    return SUFFIXES[number % len(SUFFIXES)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_ends_well_with_bad_input(kind: str, tmp_path: Path) -> None:
    bad = []
    for name in COMMANDS:
        suffix = suffix_of(kind, name)
        path = tmp_path / f"x{suffix}"
        if suffix and not os.path.lexists(path):
            KINDS[kind](path)
        for line in lines_of(name, str(path)) if suffix else ():
            fault = fault_of(line)
            if fault:
                bad.append(f"{' '.join(line)}: {fault}".replace(str(path), "FILE" + suffix))
    assert not bad, "\n".join(bad)


def test_every_verb_is_given_a_file_of_each_name() -> None:
    for name in COMMANDS:
        assert {suffix_of(kind, name) for kind in KINDS} - {""} == set(SUFFIXES), name
    for kind in KINDS:
        assert {suffix_of(kind, name) for name in COMMANDS} - {""} == set(SUFFIXES), kind
    assert set(BY_NAME) <= {name.split()[0] for name in COMMANDS}


@pytest.mark.parametrize("variable", SETTINGS)
def test_a_variable_that_names_a_bad_file_ends_well(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = []
    for kind, make in KINDS.items():
        path = tmp_path / f"{kind.replace(' ', '-')}.toml"
        make(path)
        monkeypatch.setenv(variable, str(path))
        fault = fault_of(SETTINGS[variable])
        if fault:
            bad.append(f"{variable}={kind}: {fault}")
    assert not bad, "\n".join(bad)


def fault_of(line: list[str]) -> str:
    """Run a command line; return what was wrong with how it ended, empty if nothing."""
    signal.alarm(SECONDS)
    try:
        done = CliRunner().invoke(main, line, input="n\n")
    finally:
        signal.alarm(0)
    if done.exception and not isinstance(done.exception, SystemExit):
        return repr(done.exception)[:300]
    if done.exit_code not in range(11):
        return f"exit code {done.exit_code}"
    return "control characters" if "\x1b" in done.output and "--json" not in line else ""
