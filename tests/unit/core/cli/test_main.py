from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import hpcmod
from hpcmod.core import errors
from hpcmod.core.cli.groups import LazyGroup
from hpcmod.core.cli.main import asks_for_json, main
from hpcmod.core.cli.reference.commands import verbs_of
from hpcmod.core.cli.reference.man import man_pages
from hpcmod.core.cli.reference.pages import command_pages
from hpcmod.core.log import QUIET
from hpcmod.images import Sif
from tests import corpus
from tests.calls import all_commands

COMMANDS = [("hpcmod", main), *((f"hpcmod {words}", command) for words, command in all_commands())]


def test_the_command_is_installed_as_hpcmod() -> None:
    program = Path(sys.executable).with_name("hpcmod")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hpcmod, version {hpcmod.__version__}\n"


def test_every_verb_says_what_it_does_and_shows_an_example() -> None:
    for line, command in COMMANDS:
        result = CliRunner().invoke(main, [*line.split()[1:], "-h"])
        assert result.exit_code == 0, line
        is_group = isinstance(command, click.Group) and command is not main
        assert re.search("Commands:" if is_group else rf"Examples?:\n +.*{line}", result.output), result.output


def test_every_flag_says_what_it_does() -> None:
    for line, command in COMMANDS:
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{line} {parameter.opts}"


@pytest.mark.parametrize(("group", "path"), [(one, path) for path, one in COMMANDS if isinstance(one, LazyGroup)])
def test_the_tables_of_commands_agree_with_the_help_of_each(group: LazyGroup, path: str) -> None:
    table = {name: text for commands in group.tables.values() for name, (_, text) in commands.items()}
    assert table == {name: inspect.cleandoc(verb.help or "").splitlines()[0] for name, verb in verbs_of(group).items()}


@pytest.mark.slow
def test_there_are_at_most_40_commands_and_all_lists_of_them_agree() -> None:
    names = set(verbs_of(main))
    assert len(names) <= 40  # a new one replaces another: CONTRIBUTING.md
    listed = re.findall(r"^  ([a-z]+) {2,}", CliRunner().invoke(main, ["--help"]).stdout, re.MULTILINE)
    completed = ShellComplete(main, {}, "hpcmod", "_HPCMOD_COMPLETE").get_completions([], "")
    pages = [name[len("hpcmod-") : -len(".1")] for name in man_pages() if name.startswith("hpcmod-")]
    sections = re.findall(r"^# hpcmod ([a-z]+)", "".join(command_pages().values()), re.MULTILINE)
    assert set(listed) == {one.value for one in completed} == {name.partition("-")[0] for name in pages} == names
    assert set(sections) == names


HEAVY = {
    "requests",
    "jinja2",
    "easybuild",
    "cryptography",
    "zstandard",
    "isal",
    "hpcmod.images.web",
    "hpcmod.modules.values",
}
"""Packages that are slow to import, and not needed to list commands."""


@pytest.mark.parametrize("line", ["", "--help", "--version", "uninstall", "site --help", "site completion bash"])
@pytest.mark.slow
def test_listing_commands_imports_no_other_command_and_nothing_heavy(line: str) -> None:
    program = f"""
import sys
from hpcmod.core.cli.main import asks_for_json, main
try:
    main({line.split()})
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=line != "uninstall")
    modules = set(done.stderr.split())
    assert HEAVY & modules == set()
    called = {"hpcmod.doctor.cli.site", "hpcmod.doctor.cli.completion"} if "site" in line else set()
    assert {one for one in modules if re.match(r"hpcmod\.(?!core\.)\w+\.(?!room$)", one)} <= called | {
        "hpcmod.doctor.cli"
    }


def test_python_searches_no_garbage_as_it_ends() -> None:
    program = """
import atexit, gc
atexit.register(lambda: print(len(gc.get_objects()) < gc.get_freeze_count()))  # runs last
import hpcmod.core.cli.main
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_help_lists_the_exit_codes_there_are() -> None:
    listed = re.search(r"Exit codes: (.*?)\.\n", CliRunner().invoke(main, ["-h"]).output, re.DOTALL)
    assert listed is not None
    codes = [int(code) for code in re.findall(r"(\d+) ", listed[1])]
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HpcmodError)]
    assert codes == sorted({0, errors.INTERRUPTED} | {kind.exit_code for kind in kinds})


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [pytest.param(*each, id=each[0].__name__) for each in corpus.BROKEN if each[1] in (2, 4) and "encr" not in each[2]],
)
def test_a_fault_is_a_message_with_its_cure_on_stderr_and_the_kinds_exit_code(
    make: object, code: int, words: str, tmp_path: Path
) -> None:
    image = make(tmp_path / "a.sif")  # type: ignore[operator]
    result = CliRunner().invoke(main, ["info", str(image)])
    assert result.exit_code == code
    assert result.stdout == ""
    message, *cure = result.stderr.splitlines()
    assert message.startswith("hpcmod: ")
    assert words in message
    assert cure


def test_errors_of_the_system_become_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied", "a.sif")

    monkeypatch.setattr(Sif, "facts", refuse)
    result = CliRunner().invoke(main, ["info", "a.sif"])
    assert (result.exit_code, result.stdout) == (7, "")
    assert result.stderr.startswith("hpcmod: a.sif: Permission denied\n")


WRONG = ["info", "site show lumi frontier", "install", "install --no-such-flag a.eb", "site completion cmd.exe"]


@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_is_bad_input_and_says_nothing_on_stdout(line: str) -> None:
    result = CliRunner().invoke(main, line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = "from hpcmod.core.cli.main import asks_for_json, main; main()"
    argv = [sys.executable, "-c", program, "site", "show", "lumi"]
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 1)


@pytest.mark.slow
def test_errors_are_json_too_where_json_is_asked_for() -> None:
    with_json = [line for line, command in COMMANDS if any(one.name == "as_json" for one in command.params)]
    assert len(with_json) > 40
    for line in with_json:
        result = CliRunner().invoke(main, [*line.split()[1:], "--json", "--no-such-option"])
        error = json.loads(result.stdout)["error"]
        assert (result.exit_code, error["code"]) == (2, 2), line
        assert "--no-such-option" in error["message"] and "--no-such-option" in result.stderr, line


def test_an_error_of_ours_is_json_with_its_cure_and_code(tmp_path: Path) -> None:
    env = {"HPCMOD_CATALOGUE": str(tmp_path), "HPCMOD_SITE": "generic"}
    result = CliRunner(env=env).invoke(main, ["catalogue", "journal", "--json"])
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (3, 3)
    assert "is not a catalogue" in error["message"]
    assert "hpcmod catalogue init" in error["cure"]
    assert CliRunner(env=env).invoke(main, ["catalogue", "journal"]).stdout == ""


def test_json_that_is_for_another_program_is_not_ours() -> None:
    assert not asks_for_json(main, ["exec", "Toy", "jq", "--json"])
    assert not asks_for_json(main, ["job", "Toy", "--", "a.py", "--json"])
    assert asks_for_json(main, ["catalogue", "journal", "--json"])
    assert asks_for_json(main, ["no-such-verb", "--json"])
    for before in (["--log-file", "ls"], ["-v", "--log-file=x"], ["-vv"]):
        assert asks_for_json(main, [*before, "ls", "--json"])
    assert not asks_for_json(main, ["--log-file", "ls", "site", "completion", "--json"])


def test_the_log_file_has_the_command_the_messages_and_where_an_error_came_from(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    result = CliRunner().invoke(main, ["--log-file", str(log), "info", "no.sif"])
    assert result.exit_code == 3
    text = log.read_text()
    assert f"INFO hpcmod.core.cli.main: hpcmod {hpcmod.__version__}" in text
    assert "hpcmod.core.cli.output: hpcmod: no.sif" in text
    assert "exit code 3\nTraceback" in text
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("flags", "levels"), [([], set()), (["-v"], {"INFO"}), (["-vv"], {"INFO", "DEBUG"})])
def test_verbose_logs_on_stderr(flags: list[str], levels: set[str]) -> None:
    result = CliRunner().invoke(main, [*flags, "info", "no.sif"])
    assert set(re.findall(r"^hpcmod: ([A-Z]+): ", result.stderr, re.MULTILINE)) == levels
    assert result.stderr.count("no.sif") >= 1
    assert result.stdout == ""


def test_a_log_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--log-file", str(tmp_path / "no" / "x.log"), "site", "env"])
    assert result.exit_code == 2
    assert str(tmp_path / "no" / "x.log") in result.stderr


BAD = "x\x1b]0;owned\x07\u202ey"


@pytest.mark.parametrize(
    "line", [[BAD], [f"--{BAD}"], ["ls", f"--{BAD}"], ["catalogue", "gc", "--days", BAD], ["site", BAD]]
)
def test_usage_errors_are_cleaned_of_control_characters(line: list[str]) -> None:
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 2
    assert not set("\x1b\x07\u202e") & set(done.stderr)


def call_for_real(
    code: str, *words: str, output: str = "/dev/null", tail: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run hpcmod as a shell does, after some code; `tail` redirects its streams."""
    program = f"{code}\nfrom hpcmod.core.cli.main import main\nmain()"
    line = f'exec "$@" >{output} {tail}'
    argv = ["sh", "-c", line, "sh", sys.executable, "-c", program, *words]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, "HPCMOD_SITE": "generic"}
    )


Done = subprocess.CompletedProcess[str]

INTERRUPTED = """
import hpcmod.catalogue.cli.find as find
def look_around(*_, **__):
    raise KeyboardInterrupt
find.look_around = look_around
"""


@pytest.mark.slow
def test_ctrl_c_ends_as_in_other_programs_so_that_a_loop_of_a_shell_ends() -> None:
    done = call_for_real(INTERRUPTED, "ls")
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "hpcmod: interrupted: nothing was left behind\n")
    assert call_for_real(INTERRUPTED, "ls", "--json").returncode == -signal.SIGINT


def test_ctrl_c_while_python_imports_prints_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "hpcmod").write_text("from hpcmod.core.cli.main import main\nmain()\n")
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run([sys.executable, str(tmp_path / "hpcmod"), "ls"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("words", [("ls", "--json"), ("--help",), ("site", "show")])
@pytest.mark.slow
def test_a_full_or_closed_output_is_no_traceback(words: tuple[str, ...]) -> None:
    full = call_for_real("", *words, output="/dev/full")
    assert full.returncode == 5, full.stderr
    assert "Traceback" not in full.stderr and "Exception ignored" not in full.stderr
    closed = call_for_real("", *words, tail=">&-")
    assert (closed.returncode, "Traceback" in closed.stderr) == (0, False), closed.stderr
    assert call_for_real("", *words, tail=">&- 2>&-").returncode == 0


def test_quiet_leaves_only_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(QUIET, "1")
    monkeypatch.delenv(QUIET)
    environ = {"HPCMOD_SITE": "generic", "HPCMOD_CATALOGUE": str(tmp_path / "nowhere"), "HOME": str(tmp_path)}
    assert "nowhere" in CliRunner().invoke(main, ["ls"], env=environ).stderr
    assert CliRunner().invoke(main, ["-q", "ls"], env=environ).stderr == ""
    failed = CliRunner().invoke(main, ["-q", "info", "Nope"], env=environ)
    assert (failed.exit_code, "Nope not found" in failed.stderr) == (3, True)
