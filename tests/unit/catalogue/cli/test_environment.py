from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hpcmod.core import resources
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


@pytest.fixture(autouse=True)
def no_python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)


def exports(**env: str) -> dict[str, str]:
    """Return the environment of a shell after `eval "$(hpcmod site env)"`."""
    printed = hpcmod("site", "env", **env).stdout
    script = 'eval "$1"; env -0'
    done = subprocess.run(["bash", "-c", script, "bash", printed], env=env, capture_output=True, text=True, check=True)
    return dict(item.split("=", 1) for item in done.stdout.split("\0") if item)


def test_env_points_to_our_easyblocks_easyconfigs_and_package() -> None:
    found = exports()
    easyblocks = Path(found["EASYBUILD_INCLUDE_EASYBLOCKS"])
    assert easyblocks.name == "container*.py"
    assert "EB_PYTHON" not in found
    assert "containermodule.py" in [path.name for path in easyblocks.parent.glob(easyblocks.name)]
    assert list(Path(found["EASYBUILD_ROBOT_PATHS"].split(":")[0]).glob("p/PyTorch/*.eb"))
    assert Path(found["PYTHONPATH"].split(":")[0], "hpcmod", "core", "errors.py").is_file()


@pytest.mark.parametrize(
    ("had", "rest"),
    [
        pytest.param(None, [""], id="unset: an empty part stands for EasyBuild's own default"),
        pytest.param("/x", ["/x"], id="set"),
        pytest.param("/x:", ["/x", ""], id="set, with the default"),
    ],
)
def test_env_keeps_the_robot_path_and_the_default(had: str | None, rest: list[str]) -> None:
    ours, *others = exports(**({} if had is None else {"EASYBUILD_ROBOT_PATHS": had}))["EASYBUILD_ROBOT_PATHS"].split(
        ":"
    )
    assert ours == str(resources.easyconfigs_directory())
    assert others == rest


def test_env_keeps_the_python_path() -> None:
    assert exports(PYTHONPATH="/a:/b c")["PYTHONPATH"].endswith(":/a:/b c")


def test_env_twice_changes_nothing_more() -> None:
    once = exports(PYTHONPATH="/a", EASYBUILD_ROBOT_PATHS="/x")
    kept = {name: once[name] for name in ("PYTHONPATH", "EASYBUILD_ROBOT_PATHS")}
    assert {name: exports(**kept)[name] for name in kept} == kept


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
def test_all_also_prints_equal_values(env: dict[str, str]) -> None:
    assert (
        f"SIF: {env['SIF']} -> {env['SIF']}  # you on the host"
        in hpcmod("site", "env", "--diff", "--all", **env).stdout
    )


@needs_mksquashfs
def test_json_is_one_versioned_object(env: dict[str, str]) -> None:
    image = env.pop("SIF")
    found = json.loads(hpcmod("site", "env", "--diff", "--json", "--image", image, **env).stdout)
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


@pytest.mark.parametrize("option", ["--json", "--all", "--image=x"])
def test_options_of_the_diff_go_with_it(option: str) -> None:
    result = hpcmod("site", "env", option)
    assert result.exit_code == 2 and "need --diff" in result.stderr
    assert result.stdout == "" or "need --diff" in json.loads(result.stdout)["error"]["message"]
