"""The squashfuse_ll that the runtime finds: the host's, shielded from signals meant for the program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files
from hpcmod.modules.values.plan import RunscriptSettings
from tests.unit.runscripts.scripts import SYSTEM_PATH, Scripts, make_program, task

pytestmark = pytest.mark.slow

SHOW_MASK = "#!/bin/bash\nwhile read -r name value; do [[ $name != SigIgn: ]] || echo $value; done </proc/self/status\n"
SHOW_PATH = '#!/bin/bash\nprintf "%s\\n" "$PATH"\n'
IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def with_path(standard: str) -> str:
    """Return it with another directory as the system's PATH."""
    text = runscript_files()["libexec/squashfuse_ll"]
    return text.replace("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"PATH={standard}")


def test_it_is_the_hosts_and_ignores_signals(tmp_path: Path) -> None:
    make_program(tmp_path / "host" / "squashfuse_ll", SHOW_MASK)
    ours = make_program(tmp_path / "libexec" / "squashfuse_ll", with_path(f"{tmp_path}/host"))
    ran = subprocess.run([str(ours)], env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert all(int(ran.stdout, 16) & 1 << number - 1 for number in IGNORED)


@pytest.mark.parametrize(
    ("programs", "words", "asked"),
    [
        pytest.param(("setpriv", "choom"), ("-f", "x"), True, id="in the foreground"),
        pytest.param(("setpriv", "choom"), ("x",), False, id="in the background"),
        pytest.param(("setpriv",), ("-f", "x"), False, id="older util-linux"),
        pytest.param(("choom",), ("-f", "x"), False, id="no setpriv"),
    ],
)
def test_it_ends_with_a_runtime_that_is_killed(
    tmp_path: Path, programs: tuple[str, ...], words: tuple[str, ...], asked: bool
) -> None:
    make_program(tmp_path / "host" / "squashfuse_ll", "#!/bin/bash\n")
    for program in programs:
        make_program(tmp_path / "host" / program, '#!/bin/bash\necho "$*"\n')
    ours = make_program(tmp_path / "libexec" / "squashfuse_ll", with_path(f"{tmp_path}/host"))
    ran = subprocess.run([str(ours), *words], env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert ran.stdout == ("--pdeathsig KILL -- squashfuse_ll -f x\n" if asked else "")


@pytest.mark.parametrize("way", ["singularity", "python"])
@pytest.mark.parametrize(
    ("own", "job", "taken"),
    [
        pytest.param(False, task(0), True, id="the host's"),
        pytest.param(True, task(0), False, id="one of the user's own"),
        pytest.param(False, {}, False, id="outside a job"),
    ],
)
def test_in_a_job_the_runtime_finds_ours_first(
    settings: RunscriptSettings, tmp_path: Path, way: str, own: bool, job: dict[str, str], taken: bool
) -> None:
    if shutil.which("squashfuse_ll", path=SYSTEM_PATH) is None:
        pytest.skip("no squashfuse_ll on this machine: run dev/stack")
    scripts = Scripts(tmp_path).write(settings)
    make_program(tmp_path / "tools" / "singularity", SHOW_PATH)
    if own:
        make_program(tmp_path / "tools" / "squashfuse_ll")
    (tmp_path / "x.sif").touch()
    words = ("exec", "x.sif", "true") if way == "singularity" else ("x.py",)
    path = f"{tmp_path}/tools:{SYSTEM_PATH}"
    ran = scripts(way, *words, env={**job, "SIFPYTORCH": str(tmp_path / "x.sif")}, path=path)
    assert (ran.stdout.split(os.pathsep)[0] == str(tmp_path / "libexec")) is taken, ran.stderr
