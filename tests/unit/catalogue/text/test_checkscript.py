from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcmod.catalogue.text.checkscript import render_check
from tests.programs import make_program


@pytest.mark.parametrize(
    ("lmod", "said", "code"),
    [
        pytest.param("#!/bin/sh\necho :\n", "ran\n", 5, id="it ends as the command does"),
        pytest.param("#!/bin/sh\necho false\n", "", 1, id="without the module nothing is run"),
    ],
)
def test_a_command_is_run_only_with_its_module_loaded(tmp_path: Path, lmod: str, said: str, code: int) -> None:
    tool = make_program(tmp_path / "lmod", lmod)
    script = render_check("echo ran; exit 5", module="Toy/1.0", modulepath="/a b'$(id)")
    done = subprocess.run(["bash", "-c", script], env={"LMOD_CMD": str(tool)}, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == (said, code)


def test_another_copy_that_lmod_may_prefer_is_out_of_the_way(tmp_path: Path) -> None:
    tool = make_program(tmp_path / "lmod", "#!/bin/sh\necho echo $*\n")
    script = render_check("true", module="Toy/1.0", modulepath="/stage", without="/shop/modules/all")
    done = subprocess.run(["bash", "-c", script], env={"LMOD_CMD": str(tool)}, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["bash unuse /shop/modules/all", "bash use /stage", "bash load Toy/1.0"]


def test_without_a_module_tool_that_is_reported() -> None:
    script = render_check("true", module="Toy/1.0", modulepath="/m")
    done = subprocess.run(["bash", "--norc", "-c", script], env={}, capture_output=True, text=True)
    assert (done.returncode, "neither LMOD_CMD nor MODULES_CMD" in done.stderr) == (127, True)


def test_the_caller_of_a_command_is_bash() -> None:
    script = render_check("sh -c 'basename \"$(readlink /proc/$PPID/exe)\"; exit 5'", module="Toy/1.0", modulepath="/m")
    done = subprocess.run(
        ["bash", "-c", script], env={"LMOD_CMD": "true", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("bash\n", 5)
