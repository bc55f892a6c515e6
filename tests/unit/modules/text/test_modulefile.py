from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.text.notice import HEAD, LIMIT
from hpcmod.catalogue.values.advisory import MOST_STARS
from hpcmod.core.errors import BadInputError
from hpcmod.core.resources import module_templates
from hpcmod.core.values.facts import Package
from hpcmod.modules.text.modulefile import render_body, render_description, render_help, render_package_list
from hpcmod.modules.values.install_record import SYNTAXES
from hpcmod.modules.values.plan import InstallPlan
from tests.installations import LOGIC
from tests.plans import ENVIRONMENT, HOSTILE, make_example, make_plan_of

TEMPLATES = module_templates()
LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"')
WITHIN_A_LITERAL = re.compile(r'\[format %s "(?:\\.|[^"\\\n])*"\]')
"""A Tcl command in the middle of a literal, whose argument is a literal as well."""

PROGRAMS = {
    ".lua": r"\b(capture|subprocess|popen|execute|require|dofile|loadstring)\b(?!\{cmd = line, modeA)",
    ".tcl": r"(^|\[|;)\s*(exec|system|package|load|eval)\b",
}
"""Calls that start a program or interpret text; the shell, not Lmod, executes `cmd`."""


def render(plan: InstallPlan, syntax: str) -> str:
    description = render_description(plan, syntax, TEMPLATES, conflict=plan.spec.name)
    return description + render_body(plan, syntax, TEMPLATES)


def without_literals(text: str) -> str:
    return LITERAL.sub('""', WITHIN_A_LITERAL.sub("[]", text))


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("site", ["generic", "lumi"])
def test_the_modulefile_of_a_site(site: str, syntax: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{site}.{syntax.lower()}", render(make_example(site), syntax))


@pytest.mark.parametrize(
    ("syntax", "lines"),
    [
        ("Lua", ['{ "OMP_NUM_THREADS", "4", host_wins = true },',
                 '{ "SAM_CACHE", "it\'s \\"here\\", %(name)s", host_wins = true },']),
        ("Tcl", ["set container(in_container_unless_set) [list \\", '"OMP_NUM_THREADS" "4" \\',
                 '"SAM_CACHE" "it\'s \\"here\\", %(name)s"]']),
    ],
)  # fmt: skip
def test_variables_of_an_easyconfig_are_lines_of_its_modulefile(syntax: str, lines: list[str]) -> None:
    plan = make_example("generic")
    usual = render(plan, syntax).splitlines()
    text = render(replace(plan, spec=replace(plan.spec, environment=ENVIRONMENT)), syntax)
    assert [line.strip() for line in text.splitlines() if line not in usual] == lines


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.slow
def test_hostile_text_stays_within_the_literals_of_the_language(text: str, syntax: str) -> None:
    tame = without_literals(render(make_plan_of("tame text"), syntax))
    assert without_literals(render(make_plan_of(text), syntax)) == tame


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_text_that_no_modulefile_can_hold_is_refused(syntax: str) -> None:
    with pytest.raises(BadInputError, match="control character"):
        render(make_plan_of("a\0b"), syntax)


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_the_modulefile_reads_its_logic_once(syntax: str) -> None:
    lines = [line for line in render(make_example("lumi"), syntax).splitlines() if "utf-8" not in line]
    call = {
        "Lua": 'local logic = lfs.attributes(code, "mode") == "file" and loadfile(code)',  # a FIFO would block
        "Tcl": "    source $root/libexec/module.tcl",
    }
    assert [line for line in lines if re.search(r"\b(loadfile|dofile|source) ?[($]", line)] == [call[syntax]]


@pytest.mark.parametrize("name", LOGIC)
def test_the_logic_starts_no_program(name: str) -> None:
    code = without_literals(LOGIC[name])
    assert re.findall(PROGRAMS[Path(name).suffix], code, re.MULTILINE) == []


@pytest.mark.parametrize("name", ["notices.lua", "notices.tcl"])
def test_the_logic_reads_notices_as_they_are_written(name: str) -> None:
    text = LOGIC[name]
    for constant in (HEAD, str(LIMIT)):
        assert constant in text
    assert re.search(rf"(most_stars|, 65536,) {MOST_STARS}\b", text)


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_without_an_image_there_is_still_a_modulefile(syntax: str) -> None:
    text = render(make_example("generic", facts=None), syntax)
    assert "user-software" not in text
    assert "extensions" not in text


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_only_packages_that_lmod_can_list_are_extensions(syntax: str) -> None:
    plan = replace(make_example("generic"), packages=(Package("a,b", "1"), Package("ok", "1.0")))
    (line,) = [line for line in render(plan, syntax).splitlines() if line.strip().startswith("extensions")]
    assert re.findall(r'"([^"]*)"', line) == ["ok/1.0"]


def test_the_help_names_everything_a_user_needs() -> None:
    text = render_help(make_example("lumi"))
    titles = re.findall(r"^(.+)\n~+$", text, re.MULTILINE)
    assert titles == ["Description", "Use", "Commands", "Image", "Image labels", "More information"]
    for word in ("conda-python-distributed", "start-shell", "$SIFPYTORCH", "PyTorch for LUMI"):
        assert word in text


def test_the_help_fits_80_columns() -> None:
    plan = make_example("lumi")
    plan = replace(plan, spec=replace(plan.spec, description="word " * 40), labels=(("org.label", "text " * 40),))
    assert not [line for line in render_help(plan).splitlines() if len(line) > 80 and " " in line]


def test_the_help_of_a_tool_offers_no_python() -> None:
    plan = replace(make_example("lumi"), packages=(), commands=("mytool",))
    assert "conda-python" not in render_help(plan)


def test_the_help_has_no_empty_sections() -> None:
    plan = make_example("generic", facts=None)
    text = render_help(replace(plan, spec=replace(plan.spec, homepage="", description="")))
    assert re.findall(r"^(.+)\n~+$", text, re.MULTILINE) == ["Use", "Commands", "Image"]


def test_the_packages_are_wrapped_between_two() -> None:
    plan = replace(make_example("lumi"), packages=tuple(Package(f"name{i}", f"{i}.0") for i in range(400)))
    lines = render_package_list(plan).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line.startswith("name") and re.search(r"\.0,?$", line) for line in lines)
    assert len(render(plan, "Lua").splitlines()) <= 120
    assert "name399" not in render(plan, "Lua")


def test_whatis_is_one_line_for_any_description() -> None:
    plan = make_example("lumi")
    plan = replace(plan, spec=replace(plan.spec, description="two\n\n  lines"))
    lines = [line for line in render(plan, "Lua").splitlines() if line.lstrip().startswith('whatis("Description: ')]
    assert lines == ['whatis("Description: two lines")']


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_a_modulefile_names_the_places_of_the_image_in_order_and_its_easyconfig(syntax: str) -> None:
    plan = make_example("lumi")
    literals = [literal[1:-1] for literal in LITERAL.findall(render_body(plan, syntax, TEMPLATES))]
    first = literals.index(plan.sif_places[0])
    assert tuple(literals[first : first + len(plan.sif_places)]) == plan.sif_places
    assert "PyTorch-2.7.1-rocm-6.2.4-singularity.eb" in literals


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_characters_that_change_the_direction_of_text_are_not_shown(syntax: str) -> None:
    plan = replace(make_example("lumi"), labels=(("label", "a\u202eb\u2028c\u2066d"),))
    text = render_description(plan, syntax, module_templates(), conflict="x")
    assert "a?b?c?d" in text
