"""A batch script means exactly what its plan says, whatever the arguments contain."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.jobs.text.jobscript import make_argv, render_jobscript, render_step
from hpcmod.jobs.values.job import JobPlan, make_job
from hpcmod.jobs.values.request import JobModule, Staging
from hpcmod.jobs.values.slurm import make_salloc
from hpcmod.machine.values.site import JobRules, Site, StagePlace
from tests.programs import make_program
from tests.unit.jobs.requests import make_request

ODD = ("train.py", "a b", "$HOME", "it's", '"', "`id`", "*", "", "\\", "--x=$(id)", "é", "x" * 300)

STAND_INS = """
module() { printf 'module %s\\n' "$*"; }
srun() { while [[ $1 == -* ]]; do shift; done; printf '[%s]' "${@:3}"; }
export -f module srun
"""


def made(program: tuple[str, ...] = ("train.py",), site: Site | None = None, **request: object) -> JobPlan:
    return make_job(make_request(*program, **request), site or Site("ours"))


def rendered(plan: JobPlan) -> str:
    return render_jobscript(plan)


def run(text: str, tmp_path: Path, **env: str) -> str:
    """Run a script with fakes of module and srun, which print their arguments."""
    script = tmp_path / "job.sh"
    script.write_text(text)
    done = subprocess.run(
        ["bash", "-c", f'{STAND_INS}\nbash "$0"', str(script)],
        env={"SIF": "/an image.sif", "PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_every_word_reaches_the_program_as_it_is(tmp_path: Path) -> None:
    shown = run(rendered(made(ODD)), tmp_path)
    assert shown == "module load X/1.0\n" + "".join(
        f"[{word}]" for word in ("/an image.sif", "conda-python-distributed", *ODD)
    )


def test_a_path_may_contain_variables_but_no_commands(tmp_path: Path) -> None:
    make_program(tmp_path / "stage-image", '#!/bin/bash\nprintf "export SIF=%q" "$1/x.sif"\n')
    site = Site("ours", job=JobRules(stage_places=(StagePlace("nvme", "/mnt/$USER x"),)))
    text = rendered(made(site=site, staging=Staging("nvme")))
    assert "[/mnt/me too x/x.sif]" in run(text, tmp_path, USER="me too", RUNSCRIPTS=str(tmp_path))
    for place in ("/mnt/$(id)", "/mnt/`id`", '/mnt/"x', "/mnt/\\"):
        with pytest.raises(BadInputError):
            other = Site("ours", job=JobRules(stage_places=(StagePlace("nvme", place),)))
            rendered(made(site=other, staging=Staging("nvme")))


def test_shellcheck_knows_variables_for_the_ranks() -> None:
    assert "disable=SC2016" in rendered(made(("bash", "-c", "echo $SLURM_PROCID")))
    assert "disable=SC2016" not in rendered(made())
    assert "expand variables in single quotes" in rendered(made(("bash", "-c", "echo $SLURM_PROCID")))
    assert "expand variables in single quotes" not in rendered(made(("train.py", "--gpu", "$SLURM_LOCALID")))


def test_the_site_s_own_lines_come_before_the_module(tmp_path: Path) -> None:
    site = Site("ours", job=JobRules(command=("echo from the site",)), proxies=(("https_proxy", "http://p:1/ x"),))
    text = rendered(made(site=site, proxy=True))
    assert run(text, tmp_path).startswith("from the site\nmodule load X/1.0\n")
    assert "export https_proxy='http://p:1/ x'\n" in text


def test_a_job_that_slurm_starts_without_a_home_directory_uses_that_of_the_account(tmp_path: Path) -> None:
    text = rendered(made(module=JobModule("X/1.0", trees=("/m",))))
    text = text.replace("module load", "echo $HOME; module load")
    assert f"\n{pwd.getpwuid(os.getuid()).pw_dir}\n" in run(text, tmp_path)
    assert "\n/mine\n" in run(text, tmp_path, HOME="/mine")


def test_all_directives_come_before_the_first_command() -> None:
    lines = rendered(made()).splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in lines[:last])


def test_the_words_of_a_step_are_those_of_its_text(tmp_path: Path) -> None:
    step = made(ODD).step
    shown = run("srun() { printf '[%s]' \"$@\"; }\n" + render_step(step), tmp_path)
    assert shown == "".join(f"[{word}]" for word in make_argv(step, image="/an image.sif")[1:])


def test_ranks_may_share_one_container_per_node() -> None:
    step = made(gpus=0, per_node=2, start="one-per-node").step
    assert '"$RUNSCRIPTS"/one-per-node singularity exec "$SIF"' in render_step(step)
    argv = make_argv(step, image="/x.sif", runscripts="/r")
    assert argv[argv.index("/r/one-per-node") + 1] == "singularity"


@pytest.mark.parametrize(
    ("program", "more"),
    [
        pytest.param("train.py", {"per_node": 1}, id="one rank"),
        pytest.param("hostname", {}, id="no Python"),
        pytest.param("train.py", {"launcher": "torchrun"}, id="torchrun"),
    ],
)
def test_ranks_that_cannot_share_a_container_start_plainly(program: str, more: dict[str, object]) -> None:
    plan = made((program,), **{"gpus": 0, "per_node": 2, "start": "one-per-node", **more})  # type: ignore[arg-type]
    assert "one-per-node" not in render_step(plan.step)
    assert any("--start one-per-node has no effect" in note for note in plan.notes)


def test_salloc_asks_for_the_same_nodes() -> None:
    site = Site("ours", job=JobRules(stage_places=(StagePlace("nvme", "/mnt", "-C nvme"),)))
    argv = make_salloc(made(site=site, nodes=3, staging=Staging("nvme"), options=(("account", "a"),)).directives)
    assert argv == ("salloc", "--account=a", "--nodes=3", "--ntasks-per-node=1", "-C", "nvme")


@pytest.mark.parametrize(
    ("check", "command"),
    [("stop", '"$RUNSCRIPTS"/check-nodes || exit'), ("resubmit", '"$RUNSCRIPTS"/check-nodes --resubmit "$0" || exit')],
)
def test_the_nodes_are_checked_after_the_module_is_loaded_and_before_anything_is_staged(
    check: str, command: str
) -> None:
    site = Site("ours", job=JobRules(stage_places=(StagePlace("ram", "/tmp"),)))
    lines = rendered(made(site=site, check=check, staging=Staging("ram"))).splitlines()
    places = [
        next(i for i, line in enumerate(lines) if text in line) for text in ("module load", command, "stage-image")
    ]
    assert places == sorted(places)


def test_a_bad_node_ends_the_script_before_the_ranks_start(tmp_path: Path) -> None:
    make_program(tmp_path / "check-nodes", "#!/bin/bash\nexit 1\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(rendered(made(check="stop")), tmp_path, RUNSCRIPTS=str(tmp_path))
    assert (failed.value.returncode, failed.value.stdout) == (1, "module load X/1.0\n")
