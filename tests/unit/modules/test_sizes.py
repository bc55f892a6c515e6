"""An installation that a person can read: the size of each file, and of all together.

Left out are the list of packages and the record, which grow with the image, and EasyBuild's log. To print a table:
python -m tests.unit.modules.test_sizes [PROFILE [SYNTAX]]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.resources import module_templates, runscript_files
from hpcmod.modules.store import make_scripts
from hpcmod.modules.text.modulefile import render_body, render_description
from hpcmod.modules.values.install_record import PACKAGE_LIST, link_of
from hpcmod.modules.values.plan import InstallPlan
from tests.plans import make_example
from tests.walkthroughs import blocks

MOST_LINES, MOST_BYTES = 6000, 250_000
LIMITS = {"runscripts/get-master": 60, "libexec/wrapper": 60, "libexec/module.lua": 300, "libexec/module.tcl": 300}
MODULEFILE = "modulefile"


def make_files(plan: InstallPlan, syntax: str) -> dict[str, str]:
    """Return the text of each file of an installation with one modulefile, and that file, by path; not the links."""
    plan = replace(plan, spec=replace(plan.spec, syntaxes=(syntax,)))
    files = {name: text for name, text in make_scripts(plan, runscript_files()) if not link_of(name)}
    templates = module_templates()
    module = render_description(plan, syntax, templates, conflict=plan.spec.name) + render_body(plan, syntax, templates)
    return {**{name: text for name, text in files.items() if name != PACKAGE_LIST}, MODULEFILE: module}


def lines_of(text: str) -> int:
    return len(text.splitlines())


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_each_file_can_be_read(syntax: str) -> None:
    files = make_files(make_example("lumi"), syntax)
    limits = {name: 100 for name in files if name.startswith("runscripts/") and "/lib/" not in name}
    limits |= {**LIMITS, MODULEFILE: 120}
    longer = {name: lines_of(files[name]) for name in limits if name in files and lines_of(files[name]) > limits[name]}
    assert not longer, f"shorten, or move parts to runscripts/lib: {longer}; at most {limits}"


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
@pytest.mark.parametrize("profile", ["lumi", "generic"])
def test_all_files_of_an_installation_can_be_read(profile: str, syntax: str) -> None:
    """The modulefile, which is elsewhere, has a limit of its own."""
    texts = [text for name, text in make_files(make_example(profile), syntax).items() if name != MODULEFILE]
    lines, size = sum(map(lines_of, texts)), sum(len(text.encode()) for text in texts)
    assert lines <= MOST_LINES and size <= MOST_BYTES, (
        f"{profile} with {syntax}: {lines} lines and {size} bytes, at most {MOST_LINES} and {MOST_BYTES}. "
        f"Shorten a text in runscripts/. To list them: python -m tests.unit.modules.test_sizes {profile} {syntax}"
    )


@pytest.mark.parametrize("site", ["lumi", "frontier", "marenostrum5", "cray-ex-gh200"])
def test_a_users_own_profile_adds_the_commands_of_the_host(site: str, tmp_path: Path) -> None:
    """The shipped profiles list none: the programs for them would make every installation longer than that."""
    (page,) = blocks("host-commands", "toml")
    (tmp_path / "site.toml").write_text(page.replace('"lumi"', f'"{site}"'))
    programs = {f"libexec/host-command{end}" for end in ("", "s", "s.bash")}
    assert not programs & set(make_files(make_example(site), "Lua"))
    assert programs <= set(make_files(make_example(str(tmp_path / "site.toml")), "Lua"))


def print_table(profile: str = "lumi", syntax: str = "Lua") -> None:
    """Print lines, bytes and path of each file, and their sum without the modulefile."""
    rows = [
        (lines_of(text), len(text.encode()), name) for name, text in make_files(make_example(profile), syntax).items()
    ]
    counted = [row for row in rows if row[2] != MODULEFILE]
    total = sum(row[0] for row in counted), sum(row[1] for row in counted), "without the modulefile"
    for row in [*sorted(rows), total]:
        print(*row, sep="\t")


if __name__ == "__main__":
    print_table(*sys.argv[1:])
