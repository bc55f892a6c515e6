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
    "src/hpcmod": 10,
    "src/hpcmod/core": 5235,  # 30 more: -q, colours, the status of an interruption
    "src/hpcmod/machine": 4490,  # 550 more: limits of partitions, sources and reasons of values; the program of a node
    "src/hpcmod/images": 11700,  # 160 more: names for other rooms; labels, digest and entry script of an image
    "src/hpcmod/modules": 5730,  # 230 more: the site's eb is asked; the machine of the record; 40 were in catalogue
    "src/hpcmod/compat": 3730,  # 25 more: `compat` takes the name of a container; names for other rooms
    "src/hpcmod/catalogue": 12390,  # 300 more: a module of an image in one command
    "src/hpcmod/jobs": 3515,  # 180 more: limits, entry scripts, MPI of users, launch NAME
    "src/hpcmod/doctor": 2060,  # 160 more: `site use`; `site check --sources` compares sources with clones
    "src/hpcmod/packages": 7605,  # 440 more: checks where pip's files are written, pylock.toml, programs see packages
    "src/hpcmod/building": 3095,  # 35 more: what core read of recipes
    "src/hpcmod/notebooks": 1080,  # 30 more: a server ends with hpcmod
    "src/hpcmod/runs": 7465,  # 300 more: causes as entries of TOML files, dumped stacks, py-spy of users
    "src/hpcmod/lint": 2950,
    "src/hpcmod/importing": 2500,  # 45 more: remarks of many recipes are grouped, --image of an EDF
    "tests": 4735,
    "tests/bench": 1170,
    "tests/corpora": 440,
    "tests/e2e": 3055,
    "tests/faults": 2025,
    "tests/fuzz": 710,
    "tests/integration": 13220,
    "tests/jobs": 2630,
    "tests/logs": 1360,
    "tests/lumi": 980,
    "tests/planted": 210,
    "tests/unit": 55680,  # 1,280 more: what the rooms above got; 140 came from fuzz
    "docs": 90,
    "docs/explanation": 985,
    "docs/how-to": 4290,  # 90 more: a module of an image, images from Python
    "docs/reference": 1710,
    "docs/tutorial": 160,
    "runscripts": 7215,
    "easyblocks": 625,  # 50 more: they find hpcmod under the Python of the site's eb
    "easyconfigs": 2130,
    "recipes": 1430,
    "dev": 1980,  # 225 more: dev/matrix; dev/without
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
