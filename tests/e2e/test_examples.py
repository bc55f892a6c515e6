"""The examples of docs/examples, run by the lines of their pages on two virtual nodes, print what the pages show."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.conftest import Jobs
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

PAGES = {path.parent.name: path for path in sorted((CHECKOUT / "docs" / "examples").glob("*/README.md"))}
SITE = """
name = "virtual"
[nodes.cpu]
cores = 1
partitions = ["small"]
"""
"""The machine without its GPUs, so that a job has one rank on each node."""


def block(page: Path, language: str) -> str:
    """Return the only code block of a page in a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


def differences(expected: str, printed: str) -> list[str]:
    """Return the lines that are not as a page shows them: `<1 to 2>` is a number in that range, `<n>` any figure.

    Messages of Slurm's daemons do not count: tests may have directories that they cannot enter.
    """
    lines = [line.rstrip() for line in printed.splitlines() if not line.startswith("slurmstepd-")]
    shown = expected.splitlines()
    if len(shown) != len(lines):
        return lines
    return [line for wanted, line in zip(shown, lines) if not matches(wanted, line)]


def matches(wanted: str, line: str) -> bool:
    ranges = re.findall(r"<(\S+) to (\S+)>|<n>", wanted)
    pattern = re.sub(r"<n>|<\S+\\ to\\ \S+?>", r"\\s*([0-9.]+)", re.escape(wanted)).replace("<word>", r"\w+")
    numbers = re.fullmatch(pattern, line)
    pairs = zip(ranges, numbers.groups()) if numbers else ()
    return bool(numbers) and all(not low or float(low) <= float(number) <= float(high) for (low, high), number in pairs)


@pytest.mark.parametrize(
    ("line", "same"),
    [("a  1.5 b 7", True), ("a 1.5 b 5", True), ("a 1.5 b 8", False), ("a 1.5 b", False), ("a x b 6", False)],
)
def test_a_figure_out_of_its_range_would_be_noticed(line: str, same: bool) -> None:
    assert matches("a <n> b <5 to 7>", line) == same


@pytest.fixture(scope="module")
def ran(torch_installed: Jobs, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Jobs, str]]:
    """Submit all examples and wait for them; return the directory and the job ID of each."""
    started = {}
    for name, page in PAGES.items():
        directory = tmp_path_factory.mktemp(name)
        (directory / "site.toml").write_text(SITE)
        (directory / "caches").mkdir()
        for program in page.parent.glob("*.py"):
            shutil.copy(program, directory)
        jobs = replace(torch_installed, directory=directory, site=directory / "site.toml")
        words = shlex.split(block(page, "console").removeprefix("$ hpcmod "))
        # The image has no C.UTF-8. More threads than cores of this machine would wait for each other in loops.
        started[name] = jobs, jobs.hpcmod(*words, LC_ALL="C", OMP_NUM_THREADS="1").stdout.strip()
    torch_installed.wait(*(number for _, number in started.values()), seconds=300)
    return started


@pytest.mark.parametrize("name", PAGES)
def test_an_example_prints_on_two_nodes_what_its_page_shows(ran: Mapping[str, tuple[Jobs, str]], name: str) -> None:
    jobs, number = ran[name]
    printed = jobs.output(number)
    assert (jobs.state(number), differences(block(PAGES[name], "text"), printed)) == ("COMPLETED", []), printed
