from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.runscripts.scripts import SYSTEM_PATH, Scripts, make_program

pytestmark = pytest.mark.slow

HOST, CONTAINER = "host", "container"
Ask = Callable[..., str]


@pytest.fixture
def ask(scripts: Scripts, tmp_path: Path) -> Ask:
    """Run a program where a wrapper of `python` precedes the host's on PATH; return which of the two ran."""
    (tmp_path / "image.sif").touch()
    make_program(tmp_path / "runtime" / "singularity", f"#!/bin/bash\necho {CONTAINER}\n")
    make_program(tmp_path / "host" / "python", f"#!/bin/bash\necho {HOST}\n")
    path = f"{scripts.root}/bin:{tmp_path}/host:{tmp_path}/mine:{tmp_path}/runtime:{SYSTEM_PATH}"

    def run(*words: str, cwd: Path | None = None, path: str = path) -> str:
        env = {"PATH": path, "SIFPYTORCH": str(tmp_path / "image.sif"), "HOME": str(tmp_path)}
        return subprocess.run(words, env=env, cwd=cwd or tmp_path, check=True, capture_output=True, text=True).stdout

    return lambda *words, **more: run(*words, **more).strip()


CALLS = "#!/bin/bash\npython -c 'import this' | cat\n"


@pytest.mark.parametrize(
    "words", ["env python train.py", "xvfb-run python train.py", "timeout 20 python train.py", "bash -c python;true"]
)
def test_a_command_of_the_user_is_the_containers(ask: Ask, tmp_path: Path, words: str) -> None:
    make_program(tmp_path / "host" / "xvfb-run", '#!/bin/bash\n"$@"\n')
    (tmp_path / "host" / "timeout").symlink_to("/usr/bin/timeout")
    assert ask(*words.split()) == CONTAINER


def test_a_script_of_the_user_gets_the_containers_python(ask: Ask, tmp_path: Path) -> None:
    make_program(tmp_path / "mine" / "run.sh", CALLS)
    assert ask("run.sh") == CONTAINER
    assert ask("bash", "mine/run.sh") == CONTAINER
    make_program(tmp_path / "mine" / "train.py", "#!/usr/bin/env python\n")
    assert ask("train.py") == CONTAINER


@pytest.mark.parametrize("name", ["eb", "hpcmod", "spack", "reframe"])
def test_a_known_program_of_the_host_gets_the_hosts_python(ask: Ask, tmp_path: Path, name: str) -> None:
    make_program(tmp_path / "mine" / name, CALLS)
    assert ask(name) == HOST
    assert ask("bash", "-c", f"{name} --version; true") == HOST
    make_program(tmp_path / "mine" / name, "#!/usr/bin/env python\n")
    assert ask(name) == HOST


def test_a_program_next_to_the_hosts_python_gets_it(ask: Ask, tmp_path: Path) -> None:
    make_program(tmp_path / "host" / "tool", CALLS)
    make_program(tmp_path / "host" / "tool.py", "#!/usr/bin/env python\n")
    assert [ask("tool"), ask("tool.py"), ask("bash", "host/tool")] == [HOST] * 3
    assert ask("./tool", cwd=tmp_path / "host") == HOST


CALLS_AS_SNAKEMAKE_DOES = """#!%s
import subprocess
subprocess.run("set -euo pipefail; python train.py", shell=True, executable="/bin/bash", check=True)
"""


def test_a_command_that_a_tool_in_a_venv_runs_for_its_user_is_the_containers(ask: Ask, tmp_path: Path) -> None:
    make_program(tmp_path / "host" / "snakemake", CALLS_AS_SNAKEMAKE_DOES % sys.executable)
    assert ask("snakemake") == CONTAINER
    assert ask("host/snakemake") == CONTAINER
    make_program(tmp_path / "host" / "eb", CALLS_AS_SNAKEMAKE_DOES % sys.executable)
    assert ask("eb") == HOST


def test_without_a_python_of_the_host_it_is_the_containers(ask: Ask, scripts: Scripts, tmp_path: Path) -> None:
    make_program(tmp_path / "mine" / "eb", CALLS)
    path = f"{scripts.root}/bin:{tmp_path}/mine:{tmp_path}/runtime:{SYSTEM_PATH}"
    assert ask("eb", path=path) == CONTAINER
