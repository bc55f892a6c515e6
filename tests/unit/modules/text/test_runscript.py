from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.resources import runscript_files
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import Launcher, Nodes, NodeType, Site
from hpcmod.machine.values.tables import Caches, Gpus, ModuleRules, Network
from hpcmod.modules.text.runscript import LIBEXEC, SETTINGS_FILE, render_runscripts
from hpcmod.modules.values.install_record import RUNSCRIPTS
from hpcmod.modules.values.plan import ContainerSettings, RunscriptSettings
from hpcmod.modules.values.versions import ChosenTunables
from tests.unit.runscripts.scripts import write_runscripts

CHECKOUT = Path(__file__).resolve().parents[4]
TEMPLATES = runscript_files()
SETTINGS = RunscriptSettings(
    module="PyTorch/2.7.1-rocm-6.2.4-singularity",
    sif_variable="SIFPYTORCH",
    site=Site(
        "lumi",
        gpu=Gpus(visibility=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")),
        module=ModuleRules(caches=Caches(root="/scratch/$SLURM_JOB_ACCOUNT/$USER")),
        nodes=Nodes((NodeType("gpu", gpus=2, gpu_cores=((0, 1, 2, 5), (8, 9)), partitions=("standard-g", "small-g")),)),
        launcher=Launcher(refused=(("torchrun", "it is slow"),)),
    ),
    tunables=ChosenTunables(
        (("NCCL_SOCKET_IFNAME", "hsn"), ("NCCL_NET_GDR_LEVEL", "3")), (("FI_CXI_RDZV_PROTO", "alt_read"),)
    ),
    profilers=("rocprofv3", "rocprof"),
    container=ContainerSettings(
        guard=(("PYTHONPATH", ""), ("PYTHONNOUSERSITE", "1")), variables=("APPTAINERENV_VIRTUAL_ENV",)
    ),
)
BARE = RunscriptSettings(module="jax/0.4", sif_variable="SIFJAX")
HOSTILE = RunscriptSettings(
    module="x/1\nrm -rf ~ # $(id) `id` 'q' \"d\" }} {% raw %}",
    sif_variable="SIFX",
    site=Site(
        "x",
        module=ModuleRules(caches=Caches("/tmp/a b'\"$(id)\n`id`", "/scratch/'$(touch pwned)'")),
        network=Network(host_suffix="'$(touch pwned)'\n"),
        nodes=Nodes((NodeType("'\n$(id)", gpus=1, partitions=("'$(touch${IFS}pwned)*",)),)),
        launcher=Launcher(refused=(("'; touch pwned", "`touch pwned`\n'"),)),
    ),
    tunables=ChosenTunables(
        (("NCCL_IB_HCA", "mlx5_0:1,'$(touch pwned)'\n\"\\"),), (("NCCL_IB_HCA", "'$(touch pwned)'\n"),)
    ),
    profilers=("'; touch pwned",),
    container=ContainerSettings(guard=(("PYTHONPATH", "'$(touch pwned)"),)),
    binds=(
        (Bind("/a'$(touch pwned)'\n\"\\", "/b `id`", "ro"), Bind("/c[x]/*/{uname_r}", required=True, pattern=True)),
    ),
)
ALL_SETTINGS = [
    pytest.param(SETTINGS, id="LUMI"),
    pytest.param(BARE, id="no GPUs, no tunables"),
    pytest.param(HOSTILE, id="hostile"),
]


def all_scripts(settings: RunscriptSettings) -> dict[str, str]:
    outside = {
        name: text for name, text in TEMPLATES.items() if name.startswith(LIBEXEC) and name != f"{LIBEXEC}README"
    }
    return {**render_runscripts(settings, templates=TEMPLATES), **outside}


def is_bash(name: str) -> bool:
    """Return whether a file is bash; the others are Python, or the logic of modulefiles."""
    return name.endswith(".bash") or ("." not in name and not name.startswith(f"{LIBEXEC}host-command"))


@pytest.mark.slow
def test_shellcheck_finds_nothing(tmp_path: Path, shellcheck: Callable[..., str]) -> None:
    files = []
    for number, (name, text) in enumerate(all_scripts(HOSTILE).items()):
        path = tmp_path / (name if "/" in name or name in RUNSCRIPTS else str(number))
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        files += [str(path.relative_to(tmp_path))] if is_bash(name) else []
    parts = [name for name in files if name.startswith(("lib/", LIBEXEC))]
    usual = "--exclude=SC1003,SC1090,SC1091,SC2016"  # \\ and $ in '' are literal on purpose
    scripts = [name for name in files if name not in parts]
    assert shellcheck(tmp_path, scripts, usual, "--external-sources", "--source-path=lib") == ""
    # Variables of a part are set and used by others.
    usual += ",SC2034,SC2153,SC2154,SC2317,SC2329"
    assert "".join(shellcheck(tmp_path, [part], usual, "--shell=bash") for part in parts) == ""  # together: slower


def test_run_scripts_are_the_same_in_each_installation_except_for_the_settings() -> None:
    some, others = (render_runscripts(settings, templates=TEMPLATES) for settings in (SETTINGS, BARE))
    assert {name for name in some if some[name] != others.get(name)} == {SETTINGS_FILE}
    assert all(some[name] == (CHECKOUT / "runscripts" / name).read_text() for name in some if name != SETTINGS_FILE)


@pytest.mark.parametrize("name", RUNSCRIPTS)
def test_a_script_says_what_it_does(name: str) -> None:
    first, second, *_ = TEMPLATES[name].splitlines()
    assert first == "#!/bin/bash -p"
    assert second.startswith("# ")
    assert "# hpcmod wrapper" in TEMPLATES[f"{LIBEXEC}wrapper"][:60], "lib/common.bash looks for it there"


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_nothing_sleeps_or_starts_a_program_before_it_must(settings: RunscriptSettings) -> None:
    for name, text in all_scripts(settings).items():
        if not is_bash(name):
            continue
        bash = re.sub(r"<<'END_OF_PROGRAM'.*?^END_OF_PROGRAM$", "", text, flags=re.DOTALL | re.MULTILINE)
        code = "\n".join(line for line in bash.splitlines() if not line.lstrip().startswith("#"))
        assert not re.search(r"\bsleep\b|rocm-smi|\bwhoami\b|\bbasename\b", code)


def test_the_cores_near_each_gpu_are_written_as_ranges_by_partition() -> None:
    text = render_runscripts(SETTINGS, templates=TEMPLATES)[SETTINGS_FILE]
    assert "\n_node_types=(\n  'standard-g small-g|2|0-2,5 8-9'\n)\n" in text


@pytest.mark.parametrize("name", ["conda-python-distributed", "get-master"])
def test_hostile_settings_run_nothing(name: str, tmp_path: Path) -> None:
    script = tmp_path / "runscripts" / name
    write_runscripts(script.parent, HOSTILE)
    env = {
        "PATH": "/usr/bin:/bin",
        "SLURM_JOB_PARTITION": "x",
        "HPCMOD_LAUNCHER": "torchrun",
        "HPCMOD_PROFILE_RANK": "0",
    }
    for options in ([], ["--hpcmod-explain"], ["--help"]):
        line = ["bash", str(script), *options]
        subprocess.run(line, env=env, cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert not list(tmp_path.rglob("pwned*"))


PRINT_ALL = """
from tests.plans import make_example
from tests.unit.modules.text.test_runscript import all_scripts
for site in ("lumi", "marenostrum5"):
    plan = make_example(site)
    print(plan, all_scripts(plan.runscripts))
"""


@pytest.mark.slow
def test_plans_and_scripts_do_not_depend_on_the_order_of_sets_or_on_the_directory(tmp_path: Path) -> None:
    """Each Python process orders sets of strings differently; two hash seeds are enough to notice that."""
    printed = [
        subprocess.run(
            [sys.executable, "-c", PRINT_ALL],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *sys.path])},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, cwd in (("1", CHECKOUT), ("2", tmp_path))
    ]
    assert "NCCL" in printed[0]
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"tunables": ChosenTunables((("A=1; rm", "x"),))}, id="tunable"),
        pytest.param({"tunables": ChosenTunables((("", "x"),))}, id="empty tunable"),
        pytest.param({"sif_variable": "SIF-X"}, id="variable of the image"),
        pytest.param({"site": Site("x", gpu=Gpus(visibility=("X\n",)))}, id="visibility"),
        pytest.param({"site": Site("x", module=ModuleRules(caches=Caches("/tmp\0")))}, id="NUL"),
        pytest.param({"site": Site("x", nodes=Nodes((NodeType("x", partitions=("a b",)),)))}, id="partition: blank"),
        pytest.param(
            {"site": Site("x", nodes=Nodes((NodeType("x", partitions=("a|b",)),)))}, id="separator in a partition"
        ),
    ],
)
def test_refuses_settings_that_no_script_can_hold(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        render_runscripts(SETTINGS._replace(**settings), templates=TEMPLATES)


def test_a_template_cannot_write_a_value_without_quoting_it() -> None:
    with pytest.raises(TypeError, match="without a quoting filter"):
        render_runscripts(SETTINGS, templates={f"{SETTINGS_FILE}.j2": "echo {{ settings.module }}\n"})


def test_a_template_cannot_name_a_setting_that_does_not_exist() -> None:
    with pytest.raises(Exception, match="has no attribute 'modul'"):
        render_runscripts(SETTINGS, templates={f"{SETTINGS_FILE}.j2": "echo {{ settings.modul | sh }}\n"})
