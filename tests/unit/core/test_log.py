"""The log records what was done, if it is enabled, and never a secret."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.log import (
    USER_MESSAGES,
    CommandLine,
    Logger,
    LogSettings,
    current_settings,
    logging_to,
    read_settings,
    scrub,
    start_log,
)

LOG = Logger("hpcmod.some.module")


def log_all() -> None:
    LOG.info("a step")
    LOG.debug("a detail")
    Logger(USER_MESSAGES).info("a message")


@pytest.mark.parametrize(
    ("level", "lines"),
    [("", ""), ("info", "hpcmod: INFO: a step\n"), ("debug", "hpcmod: INFO: a step\nhpcmod: DEBUG: a detail\n")],
)
def test_stderr_gets_what_the_level_asks_for(level: str, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(LogSettings(level)):
        log_all()
    log_all()  # logging is off
    assert capsys.readouterr() == ("", lines)


def test_a_file_gets_everything_with_time_process_and_module(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    for _ in range(2):
        with logging_to(LogSettings(file=str(path))):
            log_all()
    lines = path.read_text().splitlines()
    start = rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ {os.getpid()} "
    assert len(lines) == 6
    assert re.fullmatch(f"{start}INFO hpcmod.some.module: a step", lines[0])
    assert re.fullmatch(f"{start}INFO {USER_MESSAGES}: a message", lines[5])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="link"), logging_to(LogSettings(file=str(tmp_path / "link"))):
        pass
    assert not (tmp_path / "other").exists()


def test_a_started_program_can_write_to_the_same_log(tmp_path: Path) -> None:
    settings = LogSettings("info", str(tmp_path / "x.log"))
    with logging_to(settings):
        assert current_settings() == settings
        assert not start_log(LogSettings("debug"))  # already started
    assert not start_log(LogSettings())
    assert current_settings() == LogSettings()
    assert read_settings(settings.variables()) == settings


def test_flags_win_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HPCMOD_LOG": "info", "HPCMOD_LOG_FILE": "/a.log"}
    assert read_settings(environ, verbosity=3, file="b.log") == LogSettings("debug", f"{tmp_path}/b.log")
    assert read_settings({}, verbosity=1) == LogSettings("info")
    assert read_settings({}) == LogSettings()
    with pytest.raises(BadInputError, match="HPCMOD_LOG=loud: not a valid level\nSet it to one of info, debug"):
        read_settings({"HPCMOD_LOG": "loud"})


@pytest.mark.parametrize(
    "text",
    [
        "fetch https://me:hunter2@example.org/x.sif",
        "fetch https://me:p@hunter2@example.org/x.sif",
        "Authorization: Bearer hunter2",
        "{'Authorization': 'Basic hunter2=='}",
        "curl -H 'authorization: Basic hunter2'",
        "podman login --password hunter2 host",
        "podman login --password='hunter2 hunter2' host",
        "--env WANDB_API_KEY=hunter2",
        '{"identitytoken": "hunter2"}',
        "https://example.org/x?a=b&access_token=hunter2&c=d",
        "APPTAINER_DOCKER_PASSWORD='hunter2 hunter2'",
    ],
)
def test_text_that_looks_like_a_secret_is_hidden(text: str) -> None:
    assert "hunter2" not in scrub(text)
    assert "***" in scrub(text)


@pytest.mark.parametrize("text", ["GET https://example.org/v2/: 200", "asking https://x.io/token for a token"])
def test_text_that_is_not_secret_is_kept(text: str) -> None:
    assert scrub(text) == text


def test_control_characters_of_others_do_not_reach_the_terminal() -> None:
    assert scrub("a\x1b[31m\u202eb\nc") == "a?[31m?b\nc"


def test_a_command_is_written_so_that_it_can_be_run_again() -> None:
    assert str(CommandLine(["cp", "a b", "$x"])) == "cp 'a b' '$x'"
    assert "hunter2" not in str(CommandLine(["login", "--token", "hunter2"]))


@pytest.mark.slow
def test_long_text_of_others_is_scrubbed_in_bounded_steps() -> None:
    assert len(scrub("a-" * 100_000)) == 200_000
