from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import ImageFacts, Package, PythonFacts
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.condition import Condition
from hpcmod.machine.values.site import Site, Tunable
from hpcmod.machine.values.tables import Caches, Gpus, Images, ModuleRules, SiteBinds
from hpcmod.modules.values.plan import MOST_LISTED, WELL_KNOWN_COMMANDS, WELL_KNOWN_PACKAGES, make_plan
from hpcmod.modules.values.spec import InstallSpec

PYTHON = PythonFacts("/opt/env/bin/python3.12", "3.12", "/opt/env")
FACTS = ImageFacts(
    architecture="amd64",
    size=1 << 20,
    python=PYTHON,
    packages=(Package("numpy", "2.1.0"), Package("torch", "2.7.1+rocm6.2.4")),
    commands=("gcc", "pip3.12", "python", "python3.12", "torchrun"),
    labels=(("maintainer", "somebody"),),
)
WITH_CONDA = (("WITH_CONDA", "source /opt/conda/bin/activate env"),)
SITE = Site(
    name="x1",
    images=Images(central=("/appl/images", "/more/images")),
    binds=SiteBinds(((Bind("/opt/cray", required=True),),), ((Bind("/scratch"),),)),
    tunables=(Tunable("NCCL_SOCKET_IFNAME", "hsn"),),
    gpu=Gpus(visibility=("ROCR_VISIBLE_DEVICES",)),
    module=ModuleRules(caches=Caches(node_local="/local")),
)
SPEC = InstallSpec(
    name="PyTorch",
    module="PyTorch/2.7.1",
    variable="PYTORCH",
    root="/home/u/sw/PyTorch/2.7.1",
    image="torch.sif",
    easyconfig="PyTorch-2.7.1.eb",
)


def test_the_own_image_is_looked_for_before_the_sites_in_their_order() -> None:
    plan = make_plan(FACTS, SITE, SPEC)
    assert plan.own_sif == "/home/u/sw/PyTorch/2.7.1/torch.sif"
    assert plan.sif_places == (plan.own_sif, "/appl/images/torch.sif", "/more/images/torch.sif")
    found = make_plan(FACTS, SITE, replace(SPEC, found_at="/cache/torch.sif"))
    assert found.sif_places == (*plan.sif_places, "/cache/torch.sif")


@pytest.mark.parametrize(
    ("asked", "sites", "mode"),
    [
        pytest.param("auto", "copy", "copy", id="the site's choice"),
        pytest.param("auto", "central", "central", id="the site's other choice"),
        pytest.param("link", "central", "link", id="the easyconfig's choice wins"),
    ],
)
def test_the_image_mode_is_the_easyconfigs_else_the_sites(asked: str, sites: str, mode: str) -> None:
    plan = make_plan(FACTS, SITE._replace(images=Images(install_mode=sites)), replace(SPEC, install_mode=asked))
    assert plan.image_mode == mode


def test_binds_are_the_sites_then_the_easyconfigs_then_ours() -> None:
    plan = make_plan(FACTS, SITE, replace(SPEC, binds=(Bind("/data"),)))
    assert [str(group[0]) for group in plan.binds] == [
        "/opt/cray",
        "/scratch",
        "/data",
        "/home/u/sw/PyTorch/2.7.1/runscripts:/runscripts",
        "/home/u/sw/PyTorch/2.7.1/user-software.squashfs:/user-software:image-src=/,ro",
    ]
    assert str(plan.binds[-1][1]) == "/home/u/sw/PyTorch/2.7.1/user-software:/user-software"


def test_nobody_changes_the_packages_of_a_published_container() -> None:
    published = make_plan(FACTS, SITE, replace(SPEC, published=True)).binds[-1][1]
    assert str(published) == "/home/u/sw/PyTorch/2.7.1/user-software:/user-software:ro"


def test_user_packages_use_the_python_of_the_image_and_the_name_of_the_module() -> None:
    layer = make_plan(FACTS, SITE, SPEC).user_layer
    assert layer is not None
    assert (layer.venv, layer.python) == ("/user-software/venv/pytorch", PYTHON)
    odd = make_plan(FACTS, SITE, replace(SPEC, name="My AI:Stack")).user_layer
    assert odd is not None and odd.venv == "/user-software/venv/my_ai_stack"


@pytest.mark.parametrize(
    "facts", [pytest.param(None, id="no image"), pytest.param(replace(FACTS, python=None, commands=()), id="no Python")]
)
def test_an_image_without_python_has_no_user_packages(facts: ImageFacts | None) -> None:
    plan = make_plan(facts, SITE, SPEC)
    assert plan.user_layer is None
    assert plan.container_path == ("/runscripts",)
    assert plan.defaults == ((("NCCL_SOCKET_IFNAME",), "hsn"),)
    assert not any("user-software" in str(bind) for group in plan.binds for bind in group)


def test_run_scripts_come_first_on_the_containers_path_then_the_users_python_then_the_images() -> None:
    path = make_plan(FACTS, SITE, SPEC).container_path
    assert path == ("/runscripts", "/user-software/venv/pytorch/bin", "/opt/env/bin")
    own = replace(SPEC, commands=(("python", ("python",)), ("mesh", ("/opt/mesh", "-x")), ("gmx", ("gmx", "-q"))))
    plan = make_plan(FACTS, SITE, own)
    path = ("/runscripts", "/user-software/venv/pytorch/bin", "/runscripts/bin", "/opt/env/bin")
    assert (plan.container_path, plan.runscripts.container.commands) == (path, own.commands[1:])  # type: ignore[index]
    lines = (("mesh", ("/opt/mesh", "-x")), ("gmx", ("/runscripts/bin/gmx",)))
    assert plan.runscripts.container.command_lines[:2] == lines  # a wrapper passes -q once
    bare = make_plan(replace(FACTS, has_bash=False), SITE, own)
    assert "/runscripts/bin" not in bare.container_path and bare.runscripts.container.commands == ()


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(replace(PYTHON, activation_scripts=True), id="conda would run scripts"),
        pytest.param(replace(PYTHON, prefix="/usr"), id="the system's own"),
    ],
)
def test_a_python_that_path_alone_does_not_activate_is_not_put_on_it(python: PythonFacts) -> None:
    plan = make_plan(replace(FACTS, python=python, environment=WITH_CONDA), SITE, SPEC)
    assert plan.container_path == ("/runscripts", "/user-software/venv/pytorch/bin")
    assert plan.runscripts.container.python_bin == ""
    assert not any("SINGULARITYENV_CONDA_PREFIX" in names for names, _ in plan.defaults)


def test_reports_an_active_conda_environment_on_the_path() -> None:
    plan = make_plan(replace(FACTS, environment=WITH_CONDA), SITE, SPEC)
    assert (("SINGULARITYENV_CONDA_PREFIX", "APPTAINERENV_CONDA_PREFIX"), "/opt/env") in plan.defaults
    assert (("SINGULARITYENV_CONDA_DEFAULT_ENV", "APPTAINERENV_CONDA_DEFAULT_ENV"), "env") in plan.defaults
    assert plan.runscripts.container.python_bin == "/opt/env/bin"
    without = make_plan(FACTS, SITE, SPEC)
    assert not any("SINGULARITYENV_CONDA_PREFIX" in names for names, _ in without.defaults)


def test_variables_name_the_run_scripts_and_the_root() -> None:
    assert dict(make_plan(FACTS, SITE, replace(SPEC, variable="PYMINTORCH")).own) == {
        "RUNSCRIPTS": "/home/u/sw/PyTorch/2.7.1/runscripts",
        "RUNSCRIPTSPYMINTORCH": "/home/u/sw/PyTorch/2.7.1/runscripts",
        "CONTAINERROOT": "/home/u/sw/PyTorch/2.7.1",
    }


def test_variables_for_the_container_go_by_both_runtimes_names() -> None:
    defaults = dict(make_plan(FACTS, SITE, SPEC).defaults)
    assert defaults[("SINGULARITYENV_VIRTUAL_ENV", "APPTAINERENV_VIRTUAL_ENV")] == "/user-software/venv/pytorch"
    assert ("SINGULARITYENV_WITH_VENV", "APPTAINERENV_WITH_VENV") in defaults


def test_commands_are_the_well_known_ones_that_the_image_has() -> None:
    assert "gcc" not in WELL_KNOWN_COMMANDS
    assert make_plan(FACTS, SITE, SPEC).commands == ("pip3.12", "python", "python3.12", "torchrun")
    assert make_plan(FACTS, SITE, replace(SPEC, commands=(("gcc", ("gcc", "-v")),))).commands == ("gcc",)


def test_packages_whose_names_would_break_lmods_list_are_not_listed() -> None:
    odd = (Package("a,b", "1"), Package("a", "1 2"), Package('q"', "1"), Package("ok", "1!2.0+local"), Package("", "1"))
    plan = make_plan(replace(FACTS, packages=odd), SITE, SPEC)
    assert plan.listed_packages == (Package("ok", "1!2.0+local"),)
    assert plan.packages == odd


def test_of_many_packages_lmod_lists_those_that_users_look_for() -> None:
    few = tuple(Package(f"package-{number:02}", "1.0") for number in range(MOST_LISTED))
    assert make_plan(replace(FACTS, packages=few), SITE, SPEC).listed_packages == few
    known = tuple(Package(name.replace("-", "_"), "2.0") for name in WELL_KNOWN_PACKAGES)
    some = (Package("Flash_Attn", "2.8.3"), Package("torch", "2.7.1"), Package("xarray", "2026.1"))
    assert make_plan(replace(FACTS, packages=(*few, *some)), SITE, SPEC).listed_packages == some
    listed = make_plan(replace(FACTS, packages=(*few, *known)), SITE, SPEC).listed_packages
    assert len(listed) == MOST_LISTED
    assert {"torch", "flash_attn", "vllm"} <= {one.name for one in listed}
    assert "numpy" not in {one.name for one in listed}


def test_gpu_flags_become_variables_of_the_runtime_each_with_a_device() -> None:
    settings = make_plan(FACTS, SITE._replace(gpu=Gpus(runtime_flags=("--nv", "--rocm"))), SPEC).runscripts
    assert settings.gpu_flags == (("NV", "/dev/nvidiactl"), ("ROCM", "/dev/kfd"))
    assert make_plan(FACTS, SITE._replace(gpu=Gpus(runtime_flags=())), SPEC).runscripts.gpu_flags == ()


@pytest.mark.parametrize(
    ("field", "text"),
    [(field, "/a\ntouch pwned") for field in ("root", "image", "module", "easyconfig", "name")]
    + [("root", f"/a{control}b") for control in "\r\t\x1b\x7f"],
    ids=repr,
)
def test_control_characters_are_refused_where_a_shell_would_run_what_follows_them(field: str, text: str) -> None:
    with pytest.raises(BadInputError):
        make_plan(FACTS, SITE, replace(SPEC, **{field: text}))


def test_a_conditional_setting_goes_to_the_module_or_the_run_script_or_nowhere() -> None:
    tunables = (
        Tunable("ALWAYS", "1"),
        Tunable("LEVEL", "3", Condition.parse("rocm<7")),
        Tunable("CROSS", "1", Condition.parse("multi-node")),
    )
    site = SITE._replace(tunables=tunables)
    old, new = (replace(FACTS, environment=(("ROCM_VERSION", version),)) for version in ("6.2.4", "7.0.2"))
    plan = make_plan(old, site, SPEC)
    own = {name: value for names, value in plan.defaults for name in names if name in ("ALWAYS", "LEVEL", "CROSS")}
    assert own == {"ALWAYS": "1", "LEVEL": "3"}
    assert plan.runscripts.tunables.always == (("ALWAYS", "1"), ("LEVEL", "3"))
    assert plan.runscripts.tunables.multi_node == (("CROSS", "1"),)
    assert make_plan(new, site, SPEC).runscripts.tunables.always == (("ALWAYS", "1"),)


def test_variables_of_the_container_are_kept_out_of_what_the_user_builds() -> None:
    settings = make_plan(FACTS, SITE, replace(SPEC, environment=(("OMP_NUM_THREADS", "4"),))).runscripts
    assert {"SINGULARITYENV_OMP_NUM_THREADS", "APPTAINERENV_OMP_NUM_THREADS"} <= set(settings.container.variables)
