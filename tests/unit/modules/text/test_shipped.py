"""The modulefile of a shipped easyconfig, for two sites."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpcmod.core.resources import module_templates
from hpcmod.machine.machine import load_site
from hpcmod.modules.text.modulefile import render_body, render_description
from hpcmod.modules.values.plan import make_plan
from hpcmod.modules.values.spec import InstallSpec, parse_commands
from tests.catalogue_easyconfigs import list_easyconfigs


@pytest.mark.parametrize(("site", "syntax"), [("lumi", "Lua"), ("jupiter", "Tcl")])
def test_the_modulefile_of_a_shipped_easyconfig(site: str, syntax: str, golden: Callable[[str, str], None]) -> None:
    (listed,) = list_easyconfigs(["SAMtools-1.22"])
    spec = InstallSpec(
        name=listed.values["name"],
        module=listed.module,
        variable=listed.values["name"].upper(),
        root=f"/project/software/{listed.module}",
        image=listed.reference.file_name,
        easyconfig=listed.path.name,
        description=listed.values["description"],
        homepage=listed.values["homepage"],
        commands=parse_commands(listed.values["wrapped_commands"]),
    )
    plan = make_plan(None, load_site(site, {}), spec)
    text = render_description(plan, syntax, module_templates(), conflict=spec.name)
    text += render_body(plan, syntax, module_templates())
    golden(f"shipped-SAMtools-1.22-{site}.{syntax.lower()}", text)
