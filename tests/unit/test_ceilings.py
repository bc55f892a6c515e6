"""The number of lines of each part of the project, which only falls.

A part that has become smaller gets a lower ceiling: the test prints it. To raise one, write beside it the reason and
what went for it (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack import CHECKOUT

CEILINGS = {
    "src/hpcmod": 5,
    "src/hpcmod/core": 5250,  # 430 more, from images: sums and copies of files, the tally of progress
    "src/hpcmod/machine": 4235,  # 20 more: tables and facts of nodes nested in values
    "src/hpcmod/images": 9780,
    "src/hpcmod/modules": 5450,  # 160 more: the names for other rooms; 225 from images: the image of an easyconfig
    "src/hpcmod/compat": 3530,  # 10 more: what a stack has for GPUs is a value
    "src/hpcmod/catalogue": 11695,  # 400 more, from modules: advisories, and the script of a check
    "src/hpcmod/jobs": 3340,  # 5 more: the files of a job are a value
    "src/hpcmod/doctor": 1875,
    "src/hpcmod/packages": 6860,  # 3 more, from images: where conda packages are in an image
    "src/hpcmod/building": 2665,  # 25 more: the names for the easyblock; files that components share
    "src/hpcmod/notebooks": 1030,
    "src/hpcmod/runs": 6835,  # 80 more: the speed of trainings, which --read of bench reads
    "src/hpcmod/lint": 2600,
    "src/hpcmod/importing": 2215,
    "tests": 4605,
    "tests/bench": 1110,
    "tests/corpora": 420,
    "tests/e2e": 2635,
    "tests/faults": 1870,
    "tests/fuzz": 700,
    "tests/integration": 12155,  # 35 more: modules of a hierarchy, LUMI's own names, a signed SIF in a registry
    "tests/jobs": 2605,
    "tests/logs": 1360,
    "tests/lumi": 980,
    "tests/planted": 205,
    "tests/unit": 52740,
    "docs": 115,  # 25 more: a list of all pages
    "docs/explanation": 980,
    "docs/how-to": 4200,
    "docs/reference": 1665,
    "docs/tutorial": 240,  # 80 more: the script of a rank, whole
    "runscripts": 6505,  # 10 more: a missing state of the user's packages stops a start
    "easyblocks": 610,
    "easyconfigs": 2130,
    "recipes": 1430,
    "dev": 2350,  # 370 more: dev/release; dev/matrix with module tools, Slurm, Python, and its page
}
"""Lines of each folder with all that is below it, except folders that have a line of their own."""

SLACK = 0.02
"""Share of its lines that a part may be below its ceiling: else each small change would have to lower it."""

PICTURES = {".png", ".svg"}


def folders_without_ceiling() -> Iterator[str]:
    """Yield the folders that count for no part: packages of the source, and folders of tests and docs."""
    for top in (CHECKOUT, *(CHECKOUT / name for name in ("src/hpcmod", "tests", "docs"))):
        for folder in sorted(path for path in top.iterdir() if path.is_dir() and "." not in path.name):
            name = folder.relative_to(CHECKOUT).as_posix()
            if name not in CEILINGS and not any(part.startswith(f"{name}/") for part in CEILINGS):
                yield from [name] if any(map(is_counted, folder.rglob("*"))) else []


def is_counted(path: Path) -> bool:
    """Return whether a path is a text file of the checkout."""
    return path.is_file() and path.suffix not in PICTURES and "__pycache__" not in path.parts


def lines_of(part: str) -> int:
    """Return the number of lines of a part."""
    return sum(len(path.read_bytes().splitlines()) for path in files_of(part))


def files_of(part: str) -> Iterator[Path]:
    for path in sorted((CHECKOUT / part).rglob("*")):
        name = path.relative_to(CHECKOUT).as_posix()
        owner = max((other for other in CEILINGS if name.startswith(f"{other}/")), key=len)
        if owner == part and is_counted(path):
            yield path


@pytest.mark.parametrize("part", CEILINGS)
def test_a_part_stays_below_its_ceiling(part: str) -> None:
    lines = lines_of(part)
    assert lines <= CEILINGS[part], f"{part} grew to {lines} lines: say why beside its ceiling, and what went for it"
    assert lines >= CEILINGS[part] * (1 - SLACK) - 20, f"{part} fell to {lines} lines: lower its ceiling to that"


def test_every_folder_has_a_ceiling() -> None:
    assert list(folders_without_ceiling()) == []
