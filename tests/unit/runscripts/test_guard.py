"""Keeping the host's Python out of the container: wrappers, the wrapper of the runtime, and run scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.values.facts import ImageFacts
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import HOST_PYTHON, USER_SITE
from hpcmod.modules.values.guard import ALWAYS, kind_of, make_guard
from hpcmod.modules.values.plan import ContainerSettings, RunscriptSettings
from tests.unit.runscripts.scripts import SYSTEM_PATH, Rank, Scripts, make_program

USER_PACKAGES = "lib/python3.12/site-packages"
BOTH = ("SINGULARITYENV_", "APPTAINERENV_")
POISON = {name: f"/host/{name}" for name in HOST_PYTHON}
BEFORE = [name for name in (*HOST_PYTHON, USER_SITE) if kind_of(name, USER_PACKAGES) != ALWAYS]
NOTES = {f"_HPCMOD_PYTORCH_{name}": POISON.get(name, "/home/me/.local/lib") for name in BEFORE}
"""Variables that the module sets if all of these were set before it was loaded."""


@pytest.fixture
def scripts(settings: RunscriptSettings, tmp_path: Path) -> Scripts:
    given = settings._replace(
        container=ContainerSettings(make_guard(None), USER_PACKAGES, variables=("APPTAINERENV_WITH_VENV",))
    )
    return Scripts(tmp_path).write(given)


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """The environment that the module sets, without its guard, and both runtimes."""
    for name in ("singularity", "apptainer"):
        make_program(tmp_path / "runtime" / name)
    (tmp_path / "a.sif").touch()
    return {"SIFPYTORCH": str(tmp_path / "a.sif"), "PATH": f"{tmp_path}/bin:{tmp_path}/runtime:{SYSTEM_PATH}"}


def in_container(seen: dict[str, str], name: str) -> tuple[str | None, ...]:
    return tuple(seen.get(f"{prefix}{name}") for prefix in BOTH)


@pytest.mark.parametrize("call", [("python", "x.py"), ("start-shell",), ("apptainer", "exec", "a.sif", "python")])
def test_variables_of_the_host_are_emptied_for_the_container(
    scripts: Scripts, outside: dict[str, str], call: tuple[str, ...]
) -> None:
    seen = scripts(*call, env={**outside, **POISON, **NOTES}).environment
    assert {in_container(seen, name) for name in HOST_PYTHON} == {("", "")}
    assert in_container(seen, "PYTHONNOUSERSITE") == ("1", "1")


def test_variables_that_the_host_lacks_are_not_set(scripts: Scripts, outside: dict[str, str]) -> None:
    seen = scripts("python", env=outside).environment
    assert not [name for name in seen if name.startswith(BOTH)]


@pytest.mark.parametrize("call", [("python", "x.py"), ("start-shell",), ("apptainer", "exec", "a.sif", "python")])
def test_values_from_after_loading_are_passed(scripts: Scripts, outside: dict[str, str], call: tuple[str, ...]) -> None:
    seen = scripts(*call, env={**outside, **POISON}).environment
    assert {in_container(seen, name) for name in BEFORE} == {(None, None)}
    module = {f"{prefix}{name}": "" for prefix in BOTH for name in HOST_PYTHON}
    added = {"PYTHONPATH": f"/my/src:{POISON['PYTHONPATH']}:/my/lib", "LD_PRELOAD": "/my/lib.so"}
    seen = scripts(*call, env={**outside, **POISON, **NOTES, **module, **added}).environment
    assert in_container(seen, "PYTHONPATH") == ("/my/src:/my/lib",) * 2
    assert in_container(seen, "LD_PRELOAD") == ("/my/lib.so",) * 2
    assert in_container(seen, "PYTHONHOME") == in_container(seen, "CONDA_PREFIX") == ("", "")


@pytest.mark.parametrize("prefix", BOTH)
def test_a_value_of_the_user_for_the_container_wins(scripts: Scripts, outside: dict[str, str], prefix: str) -> None:
    own = {f"{prefix}PYTHONPATH": "/mine", f"{prefix}PYTHONNOUSERSITE": ""}
    seen = scripts("python", env={**outside, **POISON, **NOTES, **own}).environment
    assert {name: seen.get(name) for name in own} == own
    assert [in_container(seen, name).count(None) for name in ("PYTHONPATH", "PYTHONNOUSERSITE")] == [1, 1]


def test_a_requested_variable_is_passed_although_the_module_empties_it(
    scripts: Scripts, outside: dict[str, str]
) -> None:
    module = {f"{prefix}{name}": value for prefix in BOTH for name, value in make_guard(None)}
    asked = {"HPCMOD_KEEP_ENV": "PYTHONPATH PYTHONNOUSERSITE"}
    seen = scripts("python", env={**outside, **POISON, **NOTES, **module, **asked}).environment
    assert in_container(seen, "PYTHONPATH") == in_container(seen, "PYTHONNOUSERSITE") == (None, None)
    assert in_container(seen, "LD_PRELOAD") == ("", "") and seen["PYTHONPATH"] == "/host/PYTHONPATH"


def test_variables_set_by_the_image_are_not_changed() -> None:
    facts = ImageFacts(architecture="amd64", size=1, assigned=("CONDA_PREFIX", "PYTHONPATH"))
    assert {name for name, _ in make_guard(None)} - {name for name, _ in make_guard(facts)} == set(facts.assigned)


@pytest.mark.parametrize("script", ["conda-python-simple", "conda-python-distributed", "run-in-env"])
def test_a_program_in_the_container_does_not_see_cleared_variables(rank: Rank, script: str) -> None:
    words = ["python"] if script == "run-in-env" else []
    env = {**dict.fromkeys(HOST_PYTHON, ""), "PYTHONPATH": "/of/the/user"}
    seen = rank.scripts(script, *words, "x.py", env=env, path=rank.path).environment
    assert set(HOST_PYTHON) & set(seen) == {"PYTHONPATH"}


MODULE = {
    "SINGULARITY_BINDPATH": "/a", "APPTAINER_BINDPATH": "/a", "APPTAINER_BIND": "/b", "APPTAINERENV_WITH_VENV": "true",
    "SINGULARITYENV_PREPEND_PATH": "/runscripts", "APPTAINERENV_PYTHONPATH": "", "APPTAINERENV_MINE": "stays",
}  # fmt: skip


@pytest.mark.parametrize("runtime", ["apptainer", "singularity"])
@pytest.mark.parametrize("options", [(), ("-d", "--config", "exec", "-q")])
def test_an_image_is_built_without_what_the_module_sets(
    scripts: Scripts, outside: dict[str, str], runtime: str, options: tuple[str, ...]
) -> None:
    ran = scripts(runtime, *options, "build", "--force", "a b.sif", "x.def", env={**outside, **MODULE})
    assert ran.arguments == [*options, "build", "--force", "a b.sif", "x.def"]
    assert ran.environment["python"].endswith(f"/runtime/{runtime}")
    assert set(MODULE) & set(ran.environment) == {"APPTAINERENV_MINE"}


@pytest.mark.parametrize("words", [("pull", "x.sif", "docker://x"), ("--version",), (), ("-d",), ("sif", "list", "a")])
def test_everything_else_is_passed_to_the_runtime(
    scripts: Scripts, outside: dict[str, str], words: tuple[str, ...]
) -> None:
    ran = scripts("apptainer", *words, env={**outside, **MODULE})
    assert ran.environment.items() >= MODULE.items() and ran.status == 0


def test_where_there_is_but_one_runtime_it_is_that_one(
    scripts: Scripts, outside: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "runtime" / "apptainer").unlink()
    ran = scripts("apptainer", "exec", "a.sif", env=outside)
    assert ran.environment["python"].endswith("/runtime/singularity") and ran.arguments == ["exec", "a.sif"]
    (tmp_path / "runtime" / "singularity").unlink()
    ran = scripts("apptainer", "exec", "a.sif", env=outside)
    assert (ran.status, ran.stdout) == (7, "") and "no container runtime on this node" in ran.stderr


@pytest.mark.parametrize(("options", "is_told"), [("ro", True), ("", False)])
def test_pip_says_what_adds_to_a_container_that_it_cannot_change(
    scripts: Scripts, outside: dict[str, str], tmp_path: Path, settings: RunscriptSettings, options: str, is_told: bool
) -> None:
    """Also to an admin, who may write the directory of the packages of a published container."""
    layer = tmp_path / "user-software"
    (layer / "venv").mkdir(parents=True)
    bind = Bind(str(layer), "/user-software", options)
    scripts.write(settings._replace(binds=((bind,),), container=ContainerSettings(make_guard(None), USER_PACKAGES)))
    ran = scripts("pip", "install", "rich", env=outside)
    said = " ".join(ran.stderr.split())
    assert ("this container cannot be changed; to add to this one: hpcmod add PyTorch rich" in said) is is_told, said
