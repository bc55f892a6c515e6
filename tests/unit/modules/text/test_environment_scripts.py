"""The program in-environment and environment.sh, which replace the module on machines without a module tool."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files
from hpcmod.modules.store import install_files
from hpcmod.modules.values.plan import InstallPlan
from tests.plans import HOSTILE, make_example, make_plan_of
from tests.programs import make_program

TEMPLATES = runscript_files()
RENDERED = ("environment.sh", "runscripts/lib/settings.bash")
PLANS = {
    "lumi": make_example("lumi"),
    "frontier": make_example("frontier"),
    "no image": make_example("generic", None),
    **{name: make_plan_of(text) for name, text in HOSTILE.items() if len(text) < 1000},
}
CHECKED = {
    **{name: PLANS[name] for name in ("lumi", "frontier", "no image")},
    "all hostile texts": make_plan_of("\n".join(text for text in HOSTILE.values() if len(text) < 1000)),
}
"""Plans for shellcheck, which takes half a second."""
SHELLS = [pytest.param(shell, id=shell) for shell in ("bash", "dash", "zsh") if shutil.which(shell)]


def write_scripts(plan: InstallPlan, root: Path) -> Path:
    """Write the two scripts and the image of a plan to another root directory."""
    settings = plan.runscripts._replace(root=str(root))
    spec = replace(plan.spec, root=str(root))
    here = replace(plan, spec=spec, sif_places=(f"{root}/a 'b' $c.sif",), runscripts=settings)
    root.mkdir(parents=True, exist_ok=True)
    Path(here.sif_places[0]).touch()
    install_files(replace(here, user_layer=None), TEMPLATES)
    return root


def read_environment(shell: str, line: str, **env: str) -> dict[str, str]:
    """Run a line in a shell; return the resulting environment."""
    argv = [shell, "-c", f"{line}\nexec env -0"]
    done = subprocess.run(argv, capture_output=True, text=True, env={"PATH": os.environ["PATH"], **env})
    assert done.returncode == 0
    assert [line for line in done.stderr.split("\n")[:-1] if "not bound, missing on this node: /" not in line] == []
    return dict(entry.partition("=")[::2] for entry in done.stdout.split("\0") if entry)


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.slow
def test_shellcheck_finds_nothing(name: str, tmp_path: Path, shellcheck: Callable[..., str]) -> None:
    root = write_scripts({**CHECKED, **PLANS}[name], tmp_path / "root")
    # SC1003, SC2016: \ and $ in single quotes are literal on purpose.
    assert shellcheck(root, RENDERED, "--exclude=SC1003,SC2016", "--shell=bash") == ""


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ["lumi", "quotes", "command", "variable", "backslashes", "jinja", "utf-8", "formats"])
def test_sourcing_sets_every_value_as_it_is(name: str, shell: str, tmp_path: Path) -> None:
    plan = PLANS[name]
    root = write_scripts(plan, tmp_path / "it's $HOME")
    seen = read_environment(shell, f'. "{tmp_path}/it\'s \\$HOME/environment.sh"')
    expected = {variable: value for names, value in plan.defaults for variable in names}
    assert {variable: seen.get(variable) for variable in expected} == expected
    assert seen["SIF"] == seen[f"SIF{plan.spec.variable}"] == f"{root}/a 'b' $c.sif"
    assert seen["PATH"].startswith(f"{root}/bin:")
    assert "_hpcmod_exports" not in seen


def test_sourcing_twice_is_sourcing_once(tmp_path: Path) -> None:
    root = write_scripts(PLANS["lumi"], tmp_path / "root")
    once = read_environment("bash", f". {root}/environment.sh", SINGULARITY_BINDPATH="/etc:/etc2")
    twice = read_environment(
        "bash", f". {root}/environment.sh; . {root}/environment.sh", SINGULARITY_BINDPATH="/etc:/etc2"
    )
    assert twice == once
    assert once["APPTAINER_BINDPATH"].endswith("/etc:/etc2")


def test_excluded_variables_are_passed_if_the_user_asks(tmp_path: Path) -> None:
    root = write_scripts(PLANS["lumi"], tmp_path / "root")
    assert read_environment("bash", f". {root}/environment.sh")["APPTAINERENV_CONDA_SHLVL"] == ""
    seen = read_environment("bash", f". {root}/environment.sh", HPCMOD_KEEP_ENV="CONDA_SHLVL")
    assert "APPTAINERENV_CONDA_SHLVL" not in seen


def test_a_pythonpath_from_before_is_kept_out_and_one_from_after_is_passed(tmp_path: Path) -> None:
    root = write_scripts(PLANS["lumi"], tmp_path / "root")
    done = run_program(root, "exports", PYTHONPATH="/before")
    assert "not used in the container: PYTHONPATH: /before" in done.stderr
    source = f". {root}/environment.sh 2>/dev/null"
    for line, seen in (
        (f"{source}; export PYTHONPATH=/after:/before; {source}", "/after"),
        (f"{source}; {source}", ""),
    ):
        assert read_environment("bash", line, PYTHONPATH="/before")["APPTAINERENV_PYTHONPATH"] == seen, line
    after = read_environment("bash", f"{source}; export PYTHONPATH=/after; {source}")
    assert "APPTAINERENV_PYTHONPATH" not in after and after["PYTHONPATH"] == "/after"


def test_pip_never_finds_a_place_in_the_home_directory(tmp_path: Path) -> None:
    root = write_scripts(make_example("generic"), tmp_path / "root")
    for home, said in ((tmp_path, False), (tmp_path / "home", True)):
        (tmp_path / "home/.local/lib/python3.12/site-packages").mkdir(parents=True, exist_ok=True)
        done = run_program(root, "exports", HOME=str(home))
        assert done.stdout.count("export APPTAINERENV_PYTHONNOUSERSITE='1'") == 1
        assert (".local/lib/python3.12" in done.stderr) is said, "there is nothing to tell of"


def run_program(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [root / "in-environment", *words]
    return subprocess.run(argv, capture_output=True, text=True, env={"PATH": os.environ["PATH"], **env})


def test_without_an_image_it_says_where_it_looked(tmp_path: Path) -> None:
    root = write_scripts(PLANS["lumi"], tmp_path / "root")
    (root / "a 'b' $c.sif").unlink()
    done = run_program(root, "exports")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"{root}/a 'b' $c.sif" in done.stderr


@pytest.mark.parametrize("verb", ["exec", "shell"])
def test_the_runtime_passes_gpus_only_on_a_node_that_has_them(verb: str, tmp_path: Path) -> None:
    plan = PLANS["no image"]
    flags = (("ROCM", str(tmp_path / "kfd")),)
    root = write_scripts(replace(plan, runscripts=plan.runscripts._replace(gpu_flags=flags)), tmp_path / "root")
    make_program(
        tmp_path / "bin" / "singularity", "#!/bin/bash\necho ${APPTAINER_ROCM-unset} ${SINGULARITY_ROCM-unset}\n"
    )
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    assert run_program(root, verb, "--", "x", PATH=path).stdout == "unset unset\n"
    (tmp_path / "kfd").touch()
    assert run_program(root, verb, "--", "x", PATH=path).stdout == "1 1\n"
    assert "ROCM=" not in run_program(root, "exports", PATH=path).stdout


@pytest.mark.parametrize(
    ("verb", "wanted"),
    [
        pytest.param("exec", ["exec", "--nv", "-B", "/a b:/c", "SIF", "FIRST", "x", "--", "$y", ""], id="exec"),
        pytest.param(
            "shell", ["exec", "--nv", "-B", "/a b:/c", "SIF", "FIRST", "bash", "x", "--", "$y", ""], id="shell"
        ),
        pytest.param("run", ["run", "--nv", "-B", "/a b:/c", "SIF", "x", "--", "$y", ""], id="run"),
    ],
)
def test_the_runtime_gets_options_image_and_arguments_word_by_word(
    verb: str, wanted: list[str], tmp_path: Path
) -> None:
    """The runtime is a fake that prints its arguments."""
    root = write_scripts(replace(PLANS["no image"]), tmp_path / "root")
    fake = tmp_path / "fake"
    make_program(fake / "singularity", "#!/bin/bash\nprintf '%s\\0' \"$@\"\nexit 41\n")
    done = run_program(
        root, verb, "--nv", "-B", "/a b:/c", "--", "x", "--", "$y", "", PATH=f"{fake}:{os.environ['PATH']}"
    )
    places = {"SIF": f"{root}/a 'b' $c.sif", "FIRST": "/runscripts/run-in-env"}
    assert done.stdout.split("\0")[:-1] == [places.get(word, word) for word in wanted]
    assert done.returncode == 41
