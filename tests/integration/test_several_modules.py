"""Containers of several tools loaded together: whose `$SIF` is set, where wrappers run, that unloading is complete."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcmod.core.resources import module_templates, runscript_files
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import Site, Tunable
from hpcmod.machine.values.tables import SiteBinds
from hpcmod.modules.store import install_files
from hpcmod.modules.text.modulefile import render_body, render_description
from hpcmod.modules.values.install_record import SUFFIXES
from hpcmod.modules.values.plan import make_plan
from hpcmod.modules.values.spec import InstallSpec
from tests.integration.conftest import LOADERS, SNAPSHOT, Loader
from tests.stack import EasyBuild, ModuleTool, Stack
from tests.walkthroughs import blocks

pytestmark = pytest.mark.stack

TOOLS = ("Cat", "Sort", "Uniq")
PYTHONS = ("Torch", "Keras")
# Names that are two letters longer than Cat: if the translations of two modulefiles in Tcl differ by one byte, Lmod 8.6
# may write past the end of its buffer (docs/explanation/module-environment.md).

EASYBUILD = {
    "Lua": "prepend_path('PATH', pathJoin(root, 'bin'))\nsetenv('EBROOT{mark}', root)\n",
    "Tcl": "prepend-path PATH $root/bin\nsetenv EBROOT{mark} $root\n",
}
"""The lines that EasyBuild adds to a modulefile."""


def install(top: Path, name: str, syntax: str, sif: Path) -> None:
    """Install a module without `eb`, with its own command, bind path and variables."""
    (top / "binds" / name).mkdir(parents=True)
    command = "python" if name in PYTHONS else f"{name.lower()}-env"
    spec = InstallSpec(
        name=name,
        module=f"{name}/1.0",
        variable=name.upper(),
        root=str(top / "eb/software" / name / "1.0"),
        image=f"{name.lower()}.sif",
        easyconfig=f"{name}-1.0.eb",
        commands=((command, ("env",)),),
        environment=(("SHARED_INSIDE", f"of {name}"),),
    )
    shared, own = Tunable("SHARED_TUNABLE", f"of {name}"), Tunable(f"ONLY_{spec.variable}", "1")
    site = Site(
        "x", binds=SiteBinds(optional=((Bind(str(top / "binds" / name), f"/only-{name}"),),)), tunables=(shared, own)
    )
    plan = make_plan(None, site, spec)
    Path(spec.root).mkdir(parents=True)
    install_files(plan, runscript_files())
    (Path(spec.root) / spec.image).symlink_to(sif)
    templates = module_templates()
    text = render_description(plan, syntax, templates, conflict=name)
    text += EASYBUILD[syntax].format(mark=spec.variable) + render_body(plan, syntax, templates)
    module = top / "eb/modules/all" / name / f"1.0{SUFFIXES[syntax]}"
    module.parent.mkdir(parents=True)
    module.write_text(("#%Module\n" if syntax == "Tcl" else "") + text)


@pytest.fixture(scope="session")
def tools(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, EasyBuild]:
    """Three modules without Python and two that put it on PATH, in both syntaxes."""
    found = {}
    for syntax in SUFFIXES:
        top = tmp_path_factory.mktemp(f"tools-{syntax.lower()}")
        for name in (*TOOLS, *PYTHONS):
            install(top, name, syntax, tiny_sif)
        found[syntax] = EasyBuild(stack, top, top / "central", syntax=syntax)
    return found


@pytest.fixture(params=list(LOADERS))
def several(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path, tools: Mapping[str, EasyBuild]) -> Loader:
    """Each combination of module tool and syntax in turn."""
    tool, syntax = LOADERS[request.param]
    return Loader(ModuleTool(stack, tmp_path, tool), dataclasses.replace(tools[syntax]))


ORDERS = list(itertools.permutations(TOOLS))

SOME = [(order, ORDERS[(number * 2 + 1) % 6]) for number, order in enumerate(ORDERS)]
"""Pairs of a load order and an unload order; each order occurs once in each role."""


def choose_pairs(loader: str, bare: bool) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return some of the 36 pairs of orders, which together cover every order."""
    first = 2 * list(LOADERS).index(loader)
    return SOME[first : first + 1] if bare else SOME[first + 1 : first + 2]


USERS = [
    pytest.param({}, id="bare"),
    pytest.param(
        {"SIF": "/my.sif", "RUNSCRIPTS": "", "SINGULARITY_BINDPATH": "/etc:/etc2", "SHARED_TUNABLE": "mine"},
        id="with variables",
    ),
]

EACH = r"""
owner() {
  local sif=SIF${1^^}
  [[ $SIF == "${!sif}" && $CONTAINERROOT == */$1/1.0 && $RUNSCRIPTS == $CONTAINERROOT/runscripts ]] ||
    echo "$loads; $unloads: SIF=$SIF CONTAINERROOT=$CONTAINERROOT RUNSCRIPTS=$RUNSCRIPTS, not of $1"
}
"""


@pytest.mark.parametrize("variables", USERS)
def test_any_order_of_unloading_leaves_no_trace(
    several: Loader, variables: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """Six load orders and six unload orders, in one shell for each combination of module tool and syntax."""
    steps = [EACH, "snapshot >none"]
    for loads, unloads in choose_pairs(request.node.callspec.params["several"], not variables):
        steps.append(f"loads='{' '.join(loads)}' unloads='{' '.join(unloads)}'")
        steps += [f"module load {tool}; owner {tool}" for tool in loads]
        left = list(loads)
        for tool in unloads:
            left.remove(tool)
            steps.append(f"module unload {tool}" + (f"; owner {left[-1]}" if left else ""))
        steps.append('snapshot >after; cmp -s none after || { echo "$loads; $unloads:"; compare none after; }')
    done = several(SNAPSHOT + "\n".join(steps), **variables)
    assert (done.stdout, done.stderr) == ("", "")


def test_each_command_runs_in_its_own_container_with_its_own_variables(several: Loader) -> None:
    ask = "{0}-env | grep -E '^(SHARED|ONLY_|SIF|MINE|PATH=)' | sort; {0}-env sh -c 'ls -d /only-* /mine'"
    commands = ["module load Cat Sort Uniq", "export MINE=1 SINGULARITY_BINDPATH=$SINGULARITY_BINDPATH,/etc:/mine"]
    commands += ["export APPTAINER_BINDPATH=$SINGULARITY_BINDPATH"]
    done = several("\n".join([*commands, *(f"{ask.format(tool.lower())}; echo" for tool in TOOLS)]))
    paths = set()
    for tool, printed in zip(TOOLS, done.stdout.split("\n\n"), strict=False):
        variables = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
        assert (variables["SHARED_TUNABLE"], variables["SHARED_INSIDE"]) == (f"of {tool}", f"of {tool}")
        assert [name for name in variables if name.startswith("ONLY_")] == [f"ONLY_{tool.upper()}"]
        assert [line for line in printed.splitlines() if line.startswith("/")] == ["/mine", f"/only-{tool}"]
        paths.add(variables["PATH"])
        assert variables["MINE"] == "1"
    assert len(paths) == 1


def test_the_runtime_belongs_to_the_last_loaded(several: Loader) -> None:
    look = "singularity exec $SIF sh -c 'echo $SHARED_TUNABLE; ls -d /only-*'"
    done = several(
        f"module load Cat Sort; {look}; module unload Sort; {look}; module load Uniq; module unload Cat; {look}"
    )
    assert done.stdout.split("\n")[:6] == ["of Sort", "/only-Sort", "of Cat", "/only-Cat", "of Uniq", "/only-Uniq"]


def test_use_gives_them_to_another_one(several: Loader) -> None:
    hpcmod = several.tool.stack.python.parent / "hpcmod"
    leave = "module unload Cat; module unload Sort; snapshot >after; compare none after"
    use = f'module load Cat Sort; owner Sort; eval "$({hpcmod} use Cat)"; owner Cat'
    done = several(f"{SNAPSHOT}{EACH} snapshot >none; {use}; {leave}")
    assert done.stdout == ""


def test_two_with_python_are_loaded_only_if_the_user_asks(several: Loader) -> None:
    done = several(
        f"{SNAPSHOT} snapshot >none; module load Cat Torch; module load Keras 2>said; python | grep ^SHARED_T; "
        "module purge; snapshot >after; compare none after\n"
        "module load Cat Torch; HPCMOD_SEVERAL=1 module load Keras; python | grep ^SHARED_T; "
        "module unload Torch; python | grep ^SHARED_T; module unload Cat; module unload Keras; "
        "snapshot >after; compare none after"
    )
    first, *asked = done.stdout.splitlines()
    assert first in ("SHARED_TUNABLE=of Torch", "SHARED_TUNABLE=of Keras")
    assert asked == ["SHARED_TUNABLE=of Keras"] * 2
    assert "Torch" in (several.tool.home / "said").read_text()


@pytest.mark.parametrize("several", ["envmodules-tcl"], indirect=True)
def test_the_commands_of_the_page_work(several: Loader) -> None:
    lines = [line.strip() for block in blocks("several-containers", "console") for line in block.splitlines()]
    done = several(
        "\n".join([SNAPSHOT, "snapshot >none; set -e", *lines, "snapshot >after; compare none after >differs"])
    )
    assert "SHARED_TUNABLE=of Cat" in done.stdout.splitlines()
    assert (done.returncode, (several.tool.home / "differs").read_text()) == (0, "")
