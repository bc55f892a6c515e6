from __future__ import annotations

import pytest

from hpcmod.catalogue.text.changes import describe_changes
from hpcmod.catalogue.text.existing_module import parse_module
from hpcmod.core.errors import BadInputError
from hpcmod.core.resources import module_templates
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import SiteBinds
from hpcmod.modules.text.modulefile import render_body, render_description
from hpcmod.modules.values.install_record import SYNTAXES
from hpcmod.modules.values.plan import InstallPlan, make_plan
from tests.plans import FACTS, HOSTILE, SPEC, make_example, make_plan_of

TEMPLATES = module_templates()
BETWEEN = {
    "Lua": '\nsetenv("EBROOTTOY", root)\n-- of a hook\nprepend_path("PATH", pathJoin(root, "bin"))\n',
    "Tcl": '\nsetenv\tEBROOTTOY\t"$root"\n# of a hook\nprepend-path\tPATH\t$root/bin\n',
}
TAIL = {"Lua": "-- Built with EasyBuild version 5.4.1\n-- footer\n", "Tcl": "# Built with EasyBuild version 5.4.1\n"}
HEAD = {"Lua": "", "Tcl": "#%Module\n"}


def parts(plan: InstallPlan, syntax: str) -> tuple[str, str]:
    return render_description(plan, syntax, TEMPLATES, conflict="Toy"), render_body(plan, syntax, TEMPLATES)


def whole(plan: InstallPlan, syntax: str) -> str:
    description, body = parts(plan, syntax)
    return f"{HEAD[syntax]}{description}{BETWEEN[syntax]}{body}{TAIL[syntax]}"


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_only_our_own_parts_are_replaced(syntax: str) -> None:
    old, new = make_example("generic"), make_example("lumi")
    found = parse_module(whole(old, syntax), syntax, "it")
    assert (found.variable, found.between, found.tail) == ("PYTORCH", BETWEEN[syntax], TAIL[syntax])
    assert found.with_parts(*parts(old, syntax)) == whole(old, syntax)
    assert found.with_parts(*parts(new, syntax)) == whole(new, syntax)


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_changes_are_told_in_words(syntax: str) -> None:
    before = whole(make_example("lumi"), syntax)
    after = before.replace('"hsn"', '"hsn0"').replace('"/pfs"', '"/pfs2"').replace('"ai_container"', '"ai"')
    assert list(describe_changes(before, after)) == [
        "changed family: ai_container -> ai",
        "added bind path: /pfs2 (lumi.toml: links in /scratch, /flash, ... point there (LUMI))",
        "changed variable: NCCL_SOCKET_IFNAME hsn -> hsn0 (start RCCL over the Slingshot interfaces (LUMI))",
        "removed bind path: /pfs",
    ]
    assert list(describe_changes(before, before.replace("Kept out", "Not in"))) == ["changed help, comments or order"]
    braces = before.replace('"hsn"', '"${PATH:-/x}:$NAME"')
    assert "changed variable: NCCL_SOCKET_IFNAME hsn -> ${PATH:-/x}:$NAME" in describe_changes(before, braces)[0]
    assert list(describe_changes(before, before)) == []
    pieces = before.replace('"hsn"', '"a,b;c  -- ;# [d]"')
    assert "changed variable: NCCL_SOCKET_IFNAME hsn -> a,b;c  -- ;# [d] (" in describe_changes(before, pieces)[0]


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_binds_are_told_as_a_profile_writes_them(syntax: str) -> None:
    binds = (Bind.parse(text, required=True, origin="x.toml:1") for text in ("/a:/to", "/a:/to:ro"))
    old, new = (make_plan(FACTS, Site("x", binds=SiteBinds(((bind,),))), SPEC) for bind in binds)
    assert describe_changes(whole(old, syntax), whole(new, syntax)) == [
        "changed bind path: /a:/to required -> /a:/to:ro required (site profile x.toml)"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_part_of_ours(syntax: str, text: str) -> None:
    plan = make_plan_of(text)
    found = parse_module(whole(plan, syntax), syntax, "it")
    assert found.with_parts(*parts(plan, syntax)) == whole(plan, syntax)
    assert found.between == BETWEEN[syntax]


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_refuses_modules_that_our_easyblock_did_not_create(syntax: str) -> None:
    with pytest.raises(BadInputError, match="the module of Toy was not created by hpcmod"):
        parse_module('prepend_path("PATH", "/x")\n', syntax, "the module of Toy")
