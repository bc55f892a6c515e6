"""The site profiles that come with hpcmod: their comments, and the page that lists them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.core.resources import site_profiles
from hpcmod.machine.machine import load_site
from hpcmod.machine.values.schema import SCHEMA
from hpcmod.machine.values.site import Site

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "site-gallery.md"
HEADING = "## The machines\n"
PROFILES = site_profiles()
MACHINES = sorted(name for name in PROFILES if not name.startswith("generic"))
TABLES = {key.partition(".")[0] for key in SCHEMA}
TAG = re.compile(r"\[([a-z][a-z0-9]*)\]")
ADDRESS = re.compile(r"https?://[^\s,;]+[^\s,;.:)]")


def split_profile(name: str) -> tuple[str, list[str]]:
    """Return the comment at the top of a profile, and the lines after it."""
    header, _, rest = PROFILES[name].partition('\nname = "')
    return header, rest.splitlines()


def fact_of(name: str, what: str) -> str:
    """Return a fact from the comment at the top, such as `# Network: ...`, without its sources."""
    found = re.search(rf"^# {what}: (.+)", split_profile(name)[0], re.MULTILINE)
    assert found, f"{name} has no line '# {what}: ...'"
    return re.sub(r",? \[[a-z0-9]+\]| in these sources", "", found[1])


def gpus_of(site: Site) -> str:
    """Return the GPUs of each node type, e.g. `4 (gpu), none (cpu)`."""
    return ", ".join(f"{node.gpus or 'none'} ({node.name})" for node in site.nodes.types) or "not in the profile"


def found_by(site: Site) -> str:
    """Return how hpcmod detects the machine."""
    signs = [f"`{path}`" for path in site.detect.paths]
    signs += [f"`{name}={value}`" for name, value in site.detect.variables]
    return " or ".join(signs) or "its name"


def make_table() -> str:
    rows = [
        "| profile | machine | GPUs per node | network | module tool | container runtime | chosen by | sources |",
        "|" + "---|" * 8,
    ]
    for name in MACHINES:
        site, (header, _) = load_site(name, {}), split_profile(name)
        places = dict.fromkeys(ADDRESS.findall(header))
        links = " ".join(f"[{number}]({place})" for number, place in enumerate(places, 1))
        dates = re.search(r"as found in ([A-Z][a-z]+ \d{4})", header)
        assert dates, f"{name} does not say when its facts were found"
        machine = site.description.removeprefix(f"{site.name}: ")
        cells = [f"`{name}`", machine, gpus_of(site)]
        cells += [fact_of(name, what) for what in ("Network", "Module tool", "Container runtime")]
        rows.append(f"| {' | '.join([*cells, found_by(site), f'{dates[1]}: {links}'])} |")
    return "\n".join([*rows, ""])


def test_the_gallery_is_made_from_the_profiles(golden: Callable[[Path, str], None]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, heading, rest = text.partition(HEADING)
    assert heading
    after = rest[rest.index("\n## ") :]
    golden(PAGE, f"{before}{HEADING}\n{make_table()}{after}")


@pytest.mark.parametrize("name", MACHINES)
def test_every_source_of_a_machines_profile_is_listed_at_its_top(name: str) -> None:
    header, lines = split_profile(name)
    listed = set(re.findall(r"^# +\[([a-z0-9]+)\]", header, re.MULTILINE))
    comments = "\n".join(line.partition("#")[2] for line in lines)
    assert ADDRESS.search(header)
    assert set(TAG.findall(comments)) - TABLES <= listed


NAMED = re.compile(r"\[[a-z][a-z0-9]*\]|[\w.-]+/[\w.-]+|documentation|cray-ex|not from a document")
"""A tag from the list of sources, a repository or address, or a note that there is no source."""


@pytest.mark.parametrize("name", MACHINES)
def test_every_fact_of_a_machine_names_its_source(name: str) -> None:
    _, lines = split_profile(name)
    bare = []
    comment = before = ""
    for line in lines:
        if line.startswith("#"):
            comment = f"{comment} {line}" if before.startswith("#") else line
        elif not line:
            comment = ""
        elif re.match(r"[\w.]+ = (?!\[\]$)", line) and not re.match(r"(extends|description|default) = ", line):
            bare += [] if NAMED.search(comment) else [line]
        before = line
    assert bare == []
