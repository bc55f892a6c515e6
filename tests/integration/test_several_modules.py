"""Containers of several tools loaded at once: who `$SIF` belongs to, what wrappers run in, and that nothing is left."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.conftest import (
    LOADERS,
    SNAPSHOT,
    THOROUGH,
    Loader,
    installed,
    write_easyconfig,
    write_site,
)
from tests.stack import EasyBuild, ModuleTool, Stack

pytestmark = pytest.mark.stack

TOOLS = ("Cat", "Sort", "Uniq")

SITE = """
[images]
central = ["{top}/images"]

[binds]
required = []
optional = ["{top}/binds/{tool}:/only-{tool}"]

[environment]
SHARED_TUNABLE = "of {tool}"
"""


@pytest.fixture(scope="session")
def tools(both_syntaxes: Mapping[str, EasyBuild], tiny_sif: Path) -> Mapping[str, EasyBuild]:
    """Three modules without Python next to Toy, each with a command, a bind path and a variable of its own."""
    for eb in both_syntaxes.values():
        top = eb.top / "tools"
        (top / "images").mkdir(parents=True)
        for tool in TOOLS:
            (top / "binds" / tool).mkdir(parents=True)
            (top / "images" / f"{tool.lower()}.sif").symlink_to(tiny_sif)
            site = write_site(top, SITE.format(top=top, tool=tool))
            easyconfig = write_easyconfig(
                top, name=tool, sources=[f"{tool.lower()}.sif"], wrapped_commands={f"{tool.lower()}-env": ["env"]}
            )
            installed(eb, easyconfig, HPCMOD_SITE=str(site))
    return both_syntaxes


@pytest.fixture(params=list(LOADERS))
def several(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path, tools: Mapping[str, EasyBuild]) -> Loader:
    """Each pair of module tool and syntax in turn."""
    tool, syntax = LOADERS[request.param]
    return Loader(ModuleTool(stack, tmp_path, tool), dataclasses.replace(tools[syntax]))


ORDERS = list(itertools.permutations(TOOLS))

PAIRS = (
    list(itertools.product(ORDERS, ORDERS))
    if THOROUGH
    else [(order, ORDERS[(number * 2 + 1) % 6]) for number, order in enumerate(ORDERS)]
)
"""Load orders and unload orders: in CI each order once as each, all 36 with HPCMOD_THOROUGH=1."""

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
def test_any_order_of_unloading_leaves_no_trace(several: Loader, variables: dict[str, str]) -> None:
    steps = [EACH, "snapshot >none"]
    for loads, unloads in PAIRS:
        steps.append(f"loads='{' '.join(loads)}' unloads='{' '.join(unloads)}'")
        steps += [f"module load {tool}; owner {tool}" for tool in loads]
        left = list(loads)
        for tool in unloads:
            left.remove(tool)
            steps.append(f"module unload {tool}" + (f"; owner {left[-1]}" if left else ""))
        steps.append('snapshot >after; cmp -s none after || { echo "$loads; $unloads:"; compare none after; }')
    done = several(SNAPSHOT + "\n".join(steps), **variables)
    assert (done.stdout, done.stderr) == ("", "")
