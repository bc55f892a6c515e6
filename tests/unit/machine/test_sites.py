"""The site profiles that come with hpcmod: their comments, and the page that lists them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.core.resources import site_profiles
from hpcmod.machine.machine import load_site
from hpcmod.machine.values.profile import parse_profile
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.sources import ProfileSource

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "site-gallery.md"
HEADING = "## The machines\n"
PROFILES = site_profiles()
MACHINES = sorted(name for name in PROFILES if not name.startswith("generic"))


def fact_of(name: str, what: str) -> str:
    """Return a fact from the comment at the top, such as `# Network: ...`, without its sources."""
    found = re.search(rf"^# {what}: (.+)", PROFILES[name], re.MULTILINE)
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
        "| profile | machine | GPUs per node | network | module tool | container runtime | chosen by | tried "
        "| sources |",
        "|" + "---|" * 9,
    ]
    for name in MACHINES:
        site, values = load_site(name, {}), parse_profile(PROFILES[name], name).values
        sources = [ProfileSource.parse(value) for key, value in values.items() if key.startswith("sources.")]
        links = " ".join(f"[{number}]({source.address})" for number, source in enumerate(sources, 1))
        cells = [f"`{name}`", site.description.removeprefix(f"{site.name}: "), gpus_of(site)]
        cells += [fact_of(name, what) for what in ("Network", "Module tool", "Container runtime")]
        cells += [found_by(site), values["tried"], f"{max(source.date for source in sources)}: {links}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, ""])


def test_the_gallery_is_made_from_the_profiles(golden: Callable[[Path, str], None]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, heading, rest = text.partition(HEADING)
    assert heading
    after = rest[rest.index("\n## ") :]
    golden(PAGE, f"{before}{HEADING}\n{make_table()}{after}")


@pytest.mark.parametrize("name", ["cray-ex-gh200", "frontier", "polaris"])
def test_images_of_the_recipes_stop_instead_of_falling_back_to_tcp(name: str) -> None:
    (release,) = set(re.findall(r"`aws-ofi-nccl=([\d.]+)`", (PAGE.parent / "recipes.md").read_text(encoding="utf-8")))
    nets = [tunable for tunable in load_site(name, {}).tunables if tunable.name == "NCCL_NET"]
    assert any(net.condition.holds_for({"plugin": release}) and net.condition.holds_on(2) for net in nets)
