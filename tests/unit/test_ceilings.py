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
    "src/hpcmod/core": 5232,  # python -c without the working directory, and what was raised before
    # 115: the program that asks a node, which was in runs
    "src/hpcmod/machine": 4490,  # 410 more: 265 lines of sources, limits and reasons in profiles, and what reads them
    # 85: names for other rooms, open a SIF's files in one step
    "src/hpcmod/images": 11715,  # 75 more: labels and digest of an image before it is fetched; its entry script
    # 65: the machine that an installation was made for decides; 35: names in images
    "src/hpcmod/modules": 5705,  # 105 more: the site's eb is asked what it knows; catalogue has 25 less
    "src/hpcmod/compat": 3730,  # 10 more: `compat` takes the name of a container; 15: names for other rooms
    # 25: words, which core had
    "src/hpcmod/catalogue": 12416,  # 275 more: a module of an image in one command
    "src/hpcmod/jobs": 3512,  # 160 more: limits, entry scripts, MPI of users, kept variables, launch NAME
    "src/hpcmod/doctor": 2060,  # 80 more: `site check --sources` compares with clones which sources changed
    "src/hpcmod/packages": 7605,  # 35: MPI of users; 100 more: programs see the packages, what pip does is told
    "src/hpcmod/building": 3095,  # 30: its recipes, which core read
    "src/hpcmod/notebooks": 1095,  # findings of attacks.md and use.md
    "src/hpcmod/runs": 7465,  # 290: causes as entries; 45: stacks and MPI_Abort in `why`; 60: findings of use.md
    "src/hpcmod/lint": 2950,
    "src/hpcmod/importing": 2515,  # 60 more: remarks of many recipes are grouped, --image of an EDF
    "tests": 4735,  # 60 more: what EasyBuild imports, no fsync, and what unit tests share (1,000 less there)
    "tests/bench": 1173,
    "tests/corpora": 440,
    "tests/e2e": 3046,  # 21 more: MPI of packages that a user added
    "tests/faults": 2025,
    "tests/fuzz": 710,
    # image to module, planted modules, and what was raised before
    "tests/integration": 13218,  # 29 more: images of groups, a full disk; 72: other EasyBuilds
    "tests/jobs": 2635,
    "tests/logs": 1360,
    "tests/lumi": 980,
    "tests/planted": 207,
    # findings of attacks.md and use.md, and what was raised before
    "tests/unit": 55665,  # 18: rules of lint; 38: verify, refresh in words; 116: `why`; 70 more: the eb of a site
    "docs": 90,
    "docs/explanation": 982,  # 2 more: how often `why` is right; 30 more: five lines for each room
    "docs/how-to": 4290,  # 60 more: the page of that command; 5 more: limits, `site use`
    "docs/reference": 1708,  # findings of attacks.md and use.md, and what was raised before
    "docs/tutorial": 160,
    "runscripts": 7260,  # 47 more: MPI without PMI; faults of all nodes once; INFO lines
    # 5 more: the machine of the record; 10: which syntaxes an installation serves
    "easyblocks": 622,  # 42 more: they find hpcmod under the Python of the site's eb
    "easyconfigs": 2130,
    "recipes": 1430,
    # 160: each leaf room is removed in a copy
    "dev": 2005,  # 95 more: dev/matrix; 20 more: two processes for the quick tests, without collecting them twice
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
