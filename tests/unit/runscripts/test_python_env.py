"""The activation that conda-python-simple, conda-python-distributed and run-in-env share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.runscripts.scripts import SYSTEM_PATH, Scripts, make_program

pytestmark = pytest.mark.slow

SCRIPTS = [
    pytest.param("conda-python-simple", (), id="simple"),
    pytest.param("conda-python-distributed", (), id="distributed"),
    pytest.param("run-in-env", ("python",), id="run-in-env"),
]

ACTIVATE = """
CONDA_PREFIX=ROOT/envs/$1 CONDA_DEFAULT_ENV=$1 CONDA_SHLVL=$((${CONDA_SHLVL:-0} + 1)) PATH=ROOT/envs/$1/bin:$PATH
export CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_SHLVL PATH
"""


@pytest.fixture
def conda(tmp_path: Path) -> Path:
    """The conda of an image, with one environment, `torch`."""
    root = tmp_path / "conda"
    make_program(root / "bin" / "activate", ACTIVATE.replace("ROOT", str(root)))
    make_program(root / "envs" / "torch" / "bin" / "python")
    make_program(root / "envs" / "torch" / "bin" / "torchrun")
    return root


@pytest.fixture
def image(conda: Path) -> dict[str, str]:
    """The environment of an image that the user has to activate."""
    return {"WITH_CONDA": f"source {conda}/bin/activate torch"}


@pytest.fixture
def active(conda: Path, image: dict[str, str]) -> dict[str, str]:
    """The environment of an image that is already activated."""
    prefix = conda / "envs" / "torch"
    baked = {"CONDA_PREFIX": str(prefix), "CONDA_DEFAULT_ENV": "torch", "CONDA_SHLVL": "1"}
    return {**image, **baked, "PATH": f"{prefix}/bin:{SYSTEM_PATH}"}


@pytest.mark.parametrize(("name", "command"), SCRIPTS)
def test_activates_the_environment_that_the_image_names(
    scripts: Scripts, conda: Path, image: dict[str, str], name: str, command: tuple[str, ...]
) -> None:
    ran = scripts(name, *command, "-c", "print('a b')", env=image)
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.environment["python"] == f"{conda}/envs/torch/bin/python"
    assert ran.environment["CONDA_DEFAULT_ENV"] == "torch"
    assert ran.arguments == ["-c", "print('a b')"]


@pytest.mark.parametrize(("name", "command"), SCRIPTS)
def test_does_not_activate_twice(
    scripts: Scripts, active: dict[str, str], conda: Path, name: str, command: tuple[str, ...]
) -> None:
    (conda / "bin" / "activate").write_text("echo activated again >&2\n")
    ran = scripts(name, *command, env=active)
    assert (ran.status, ran.stderr, ran.environment["CONDA_SHLVL"]) == (0, "", "1")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"CONDA_PREFIX": "ROOT"}, id="its base is"),
        pytest.param({"CONDA_PREFIX": "ROOT/envs/jax"}, id="another environment is"),
        pytest.param({"PATH": SYSTEM_PATH}, id="not on PATH"),
        pytest.param({"CONDA_PREFIX": ""}, id="no prefix"),
    ],
)
def test_activates_where_something_else_is_active(
    scripts: Scripts, active: dict[str, str], conda: Path, change: dict[str, str]
) -> None:
    env = {**active, **{name: value.replace("ROOT", str(conda)) for name, value in change.items()}}
    seen = scripts("conda-python-simple", env=env).environment
    assert seen["CONDA_PREFIX"] == f"{conda}/envs/torch" and seen["python"] == f"{conda}/envs/torch/bin/python"


def test_forgets_a_conda_of_the_host(scripts: Scripts, image: dict[str, str]) -> None:
    host = {"CONDA_PREFIX": "/home/alice/conda", "CONDA_SHLVL": "7", "CONDA_DEFAULT_ENV": "base"}
    assert scripts("conda-python-simple", env={**image, **host}).environment["CONDA_SHLVL"] == "1"


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """The virtual environment of the user, on top of the image."""
    return make_program(tmp_path / "layer" / "bin" / "python").parent.parent


@pytest.mark.parametrize("kind", ["image", "active"])
def test_the_packages_of_the_user_come_before_those_of_the_image(
    scripts: Scripts, layer: Path, conda: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    env: dict[str, str] = dict(request.getfixturevalue(kind))
    env.update(VIRTUAL_ENV=str(layer), PATH=f"{layer}/bin:{env.get('PATH', SYSTEM_PATH)}")
    assert scripts("conda-python-simple", env=env).environment["python"] == f"{layer}/bin/python"
    assert scripts("run-in-env", "torchrun", env=env).environment["python"] == f"{conda}/envs/torch/bin/torchrun"


def test_a_virtual_environment_of_the_host_stays_outside(
    scripts: Scripts, layer: Path, conda: Path, image: dict[str, str]
) -> None:
    seen = scripts("conda-python-simple", env={**image, "VIRTUAL_ENV": str(layer)}).environment
    assert seen["python"] == f"{conda}/envs/torch/bin/python"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('[ "$UNSET_ANYWHERE" = x ]; true', id="reads what is not set"),
        pytest.param("echo talk", id="talks on stdout"),
        pytest.param('test "$#" = 1', id="looks at its arguments"),
        pytest.param("cd / && cd - >/dev/null", id="moves about"),
    ],
)
def test_habits_of_conda_do_no_harm(scripts: Scripts, conda: Path, image: dict[str, str], line: str) -> None:
    activate = conda / "bin" / "activate"
    activate.write_text(f"{activate.read_text()}\n{line}\n")
    ran = scripts("conda-python-simple", "x.py", "y", env=image)
    assert ran.status == 0 and ran.arguments == ["x.py", "y"] and ran.stdout.startswith("python=")


def test_any_command_may_activate(scripts: Scripts, image: dict[str, str]) -> None:
    env = {"WITH_CONDA": f"{image['WITH_CONDA']} && export ONE='a  b'; export TWO=$ONE"}
    seen = scripts("conda-python-simple", env=env).environment
    assert (seen["ONE"], seen["TWO"]) == ("a  b", "a  b")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("/host/lib:/opt/x", "/host/lib:/conda/lib:/host/lib:/opt/x", id="the host's stay first"),
        pytest.param("/opt/x", "/conda/lib:/opt/x", id="others need not"),
        pytest.param("/host/library", "/conda/lib:/host/library", id="a longer name"),
    ],
)
def test_the_hosts_libraries_stay_before_those_of_an_environment(
    scripts: Scripts, image: dict[str, str], before: str, after: str
) -> None:
    env = {
        "WITH_CONDA": f"{image['WITH_CONDA']}; LD_LIBRARY_PATH=/conda/lib:$LD_LIBRARY_PATH",
        "LD_LIBRARY_PATH": before,
    }
    assert scripts("conda-python-simple", env=env).environment["LD_LIBRARY_PATH"] == after


@pytest.mark.parametrize(("name", "command"), SCRIPTS)
def test_an_environment_that_cannot_be_activated_is_an_error(
    scripts: Scripts, name: str, command: tuple[str, ...], python_path: str
) -> None:
    ran = scripts(name, *command, env={"WITH_CONDA": "source /nowhere/activate torch"}, path=python_path)
    assert (ran.status, ran.stdout) == (7, "")
    assert "environment with WITH_CONDA='source /nowhere/activate torch'" in ran.stderr
    assert scripts(name, *command, env={"WITH_CONDA": "true"}, path=python_path).status == 0  # as of older modules


def test_where_there_is_only_python3_that_is_run(scripts: Scripts, tmp_path: Path) -> None:
    make_program(tmp_path / "three" / "python3")
    ran = scripts("conda-python-simple", "x.py", path=f"{tmp_path}/three")
    assert ran.environment["python"] == f"{tmp_path}/three/python3"


@pytest.mark.parametrize("name", ["conda-python-simple", "conda-python-distributed"])
def test_without_python_reports_what_was_searched(scripts: Scripts, name: str, tmp_path: Path) -> None:
    for program in ("mkdir", "env", "ls"):
        (tmp_path / "few").mkdir(exist_ok=True)
        (tmp_path / "few" / program).symlink_to(f"/usr/bin/{program}")
    ran = scripts(name, path=f"{tmp_path}/few")
    assert (ran.status, ran.stdout) == (127, "")
    assert f"neither python nor python3 on PATH={tmp_path}/few" in ran.stderr


def test_run_in_env_runs_the_command_it_is_given(scripts: Scripts, conda: Path, image: dict[str, str]) -> None:
    ran = scripts("run-in-env", "torchrun", "a b", "--", "-x", env=image)
    assert ran.environment["python"] == f"{conda}/envs/torch/bin/torchrun" and ran.arguments == ["a b", "--", "-x"]
    assert scripts("run-in-env", "/usr/bin/printf", "%s", "a b").stdout == "a b"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), 2, "usage: run-in-env COMMAND [ARGS]"),
        (("no-such-command",), 127, "command 'no-such-command' not found in this image"),
    ],
)
def test_run_in_env_says_what_is_missing(scripts: Scripts, words: tuple[str, ...], status: int, said: str) -> None:
    ran = scripts("run-in-env", *words)
    assert (ran.status, said in ran.stderr) == (status, True)
