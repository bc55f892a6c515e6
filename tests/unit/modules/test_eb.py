from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.log import LogSettings, logging_to
from hpcmod.modules.eb import call_eb, isolated, report_exit_code, report_plan, run_eb
from tests.programs import make_program

pytestmark = pytest.mark.slow


def test_nothing_relative_is_left_to_look_for_programs_and_modules_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = isolated(
        {
            "PATH": ".:/usr/bin::bin:/bin",
            "PYTHONPATH": ":/opt/lib:here",
            "HPCMOD_SITE": "./ours.toml",
            "HPCMOD_CATALOGUE": "cat:/cat",
            "HPCMOD_CACHE": "c",
        }
    )
    assert found == {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": "/opt/lib",
        "PYTHONSAFEPATH": "1",
        "HPCMOD_SITE": f"{tmp_path}/ours.toml",
        "HPCMOD_CATALOGUE": f"{tmp_path}/cat:/cat",
        "HPCMOD_CACHE": f"{tmp_path}/c",
    }
    assert isolated({"PATH": ".", "HPCMOD_SITE": "lumi"})["HPCMOD_SITE"] == "lumi"
    assert "" not in isolated({"PATH": "."})["PATH"].split(":")
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")  # of the terminal of another machine
    assert isolated({"PATH": "/bin", "LC_ALL": "xx_YY.UTF-8"})["LC_ALL"] == "C"


def test_eb_logs_where_hpcmod_logs(tmp_path: Path) -> None:
    with logging_to(LogSettings("debug", str(tmp_path / "x.log"))):
        found = isolated({"PATH": "/bin", "HPCMOD_LOG": "info"})
    assert (found["HPCMOD_LOG"], found["HPCMOD_LOG_FILE"]) == ("debug", f"{tmp_path}/x.log")
    assert "HPCMOD_LOG" not in isolated({"PATH": "/bin"})


def test_eb_runs_in_a_directory_where_no_one_plants_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "eb"
    program.parent.mkdir()
    make_program(program, '#!/bin/sh\npwd; echo "$PYTHONSAFEPATH" "$@"; touch "$EASYBUILD_TMPDIR/b"; mktemp\n')
    monkeypatch.chdir(tmp_path)
    done = run_eb(["a b"], {"PATH": f".:{program.parent}:/usr/bin:/bin"})
    *lines, left = done.stdout.splitlines()
    assert lines == ["/", "1 a b"]
    assert not Path(left).parent.exists()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("exit 0", 0, id="ok"),
        pytest.param('echo 9 > "$HPCMOD_EXIT_CODE_FILE"; exit 0', 0, id="an error that was overcome"),
        pytest.param('echo 9 > "$HPCMOD_EXIT_CODE_FILE"; exit 13', 9, id="an error of hpcmod"),
        pytest.param("exit 4", 3, id="no such easyconfig"),
        pytest.param("exit 16", 1, id="any other failure"),
        pytest.param("exit 130", 130, id="interrupted"),
        pytest.param("kill -KILL $$", 137, id="killed"),
    ],
)
def test_exit_codes_are_those_of_hpcmod(tmp_path: Path, script: str, code: int) -> None:
    program = tmp_path / "eb"
    make_program(program, f"#!/bin/sh\n{script}\n")
    for shown in (True, False):
        assert call_eb([], {"PATH": f"{tmp_path}:/usr/bin:/bin"}, tell=print, shown=shown) == code


def test_steps_of_eb_are_shown_on_request_and_its_log_if_it_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = "echo 'in case of crash /t/a'; echo step; echo w >&2; echo 'found in the log file(s) /t/b'"
    make_program(tmp_path / "eb", f"#!/bin/sh\n{said}\n[ $1 = good ]\n")
    environ, told = {"PATH": f"{tmp_path}:/usr/bin:/bin"}, []
    for words, shown, out in ((["good"], False, False), (["bad"], True, True), (["bad"], False, False)):
        call_eb(words, environ, tell=told.append, shown=shown)
        printed = capfd.readouterr()
        assert ("step" in printed.out, printed.err) == (out, "w\n")
    assert told == ["the log of eb: /t/b"]
    with logging_to(LogSettings("info")):
        call_eb(["bad"], environ, tell=told.append)
    assert ("step" in capfd.readouterr().err, told[1:]) == (True, [])


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        pytest.param("echo planned >plan", "planned", id="sound"),
        pytest.param("echo planned >plan; exit 1", "of eb", id="failed"),
        pytest.param(":", "of eb", id="of another easyblock"),
    ],
)
def test_a_dry_run_prints_the_plan_and_the_text_of_eb_only_where_it_helps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, printed: str
) -> None:
    make_program(tmp_path / "eb", f"#!/bin/sh\necho of eb; cd ${{HPCMOD_EXIT_CODE_FILE%/*}}; {script}\n")
    plans: list[str] = []
    call_eb(["-x"], {"PATH": f"{tmp_path}:/usr/bin:/bin"}, tell=print, print_plan=plans.append)
    assert len(plans) == 1 and plans[0].startswith(printed)
    assert capfd.readouterr().out == ""


def test_an_exit_code_and_a_plan_are_reported_only_where_they_are_asked_for(tmp_path: Path) -> None:
    for environ in ({}, {"HPCMOD_EXIT_CODE_FILE": f"{tmp_path}/code"}):
        report_plan(["a: /tmp/eb-x/__ROOT__/home/me:/b"], environ)
        report_plan(["b"], environ)
    assert (tmp_path / "plan").read_text() == "a: /home/me:/b\nb\n"
    report_exit_code(9, {})
    report_exit_code(9, {"HPCMOD_EXIT_CODE_FILE": f"{tmp_path}/code"})
    assert (tmp_path / "code").read_text() == "9"
