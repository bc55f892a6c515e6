from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import corpus
from tests.calls import hpcmod
from tests.programs import make_program

needs_mksquashfs = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")

RUNTIME = """#!/bin/bash
[[ $1 == exec && $3 == env ]] || exit 9
[[ ! ${APPTAINERENV_PYTHONPATH+set} ]] || export PYTHONPATH=$APPTAINERENV_PYTHONPATH
export WITH_CONDA=inside
unset LD_LIBRARY_PATH
exec env -0
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a loaded module, with a fake runtime that starts nothing."""
    (tmp_path / "bin").mkdir()
    make_program(tmp_path / "bin" / "singularity", RUNTIME)
    image = corpus.make_image(tmp_path / "a.sif")
    more = {"PYTHONPATH": "/the host's", "APPTAINERENV_PYTHONPATH": "", "LD_LIBRARY_PATH": "/x"}
    return {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "SIF": str(image), **more}


@needs_mksquashfs
def test_diff_prints_what_changes_and_who_changed_it(env: dict[str, str]) -> None:
    result = hpcmod("site", "env", "--diff", **env)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "PYTHONPATH: '/the host'\"'\"'s' -> ''  # you, by APPTAINERENV_PYTHONPATH" in lines
    assert "LD_LIBRARY_PATH: /x -> not set  # the runtime, which does not pass it on" in lines
    assert "WITH_CONDA: not set -> inside  # the image" in lines
    assert not [line for line in lines if line.startswith(("SIF:", "HOME:"))]


@needs_mksquashfs
def test_json_is_one_versioned_object(env: dict[str, str]) -> None:
    found = json.loads(hpcmod("site", "env", "--diff", "--json", **env).stdout)
    assert found["version"] == 1
    inside = {"name": "WITH_CONDA", "host": None, "container": "inside", "set_by": "the image"}
    assert inside in found["variables"]


@needs_mksquashfs
def test_an_image_that_does_not_start_is_a_failed_check(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "singularity").write_text("#!/bin/bash\necho FATAL: no >&2; exit 255\n")
    result = hpcmod("site", "env", "--diff", **env)
    assert result.exit_code == 1 and "ended with status 255\nFATAL: no" in result.stderr


@needs_mksquashfs
def test_without_a_runtime_the_machine_lacks_something(env: dict[str, str], tmp_path: Path) -> None:
    assert hpcmod("site", "env", "--diff", **{**env, "PATH": str(tmp_path)}).exit_code == 7


@pytest.mark.parametrize("sif", ["", "/nowhere.sif"])
def test_without_an_image_it_reports_the_cure(sif: str) -> None:
    result = hpcmod("site", "env", "--diff", SIF=sif)
    assert result.exit_code == 3 and "Load a container module first" in result.stderr


def test_json_goes_with_the_diff() -> None:
    result = hpcmod("site", "env", "--json")
    assert result.exit_code == 2 and "needs --diff" in result.stderr
