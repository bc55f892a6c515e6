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
    "src/hpcmod": 1771,
    "src/hpcmod/building": 1835,
    "src/hpcmod/catalogue": 6638,
    "src/hpcmod/check": 8593,
    "src/hpcmod/cli": 12131,
    "src/hpcmod/endings": 1189,
    "src/hpcmod/fs": 1471,
    "src/hpcmod/image": 13888,
    "src/hpcmod/importing": 5849,
    "src/hpcmod/install": 6107,
    "src/hpcmod/model": 19245,
    "src/hpcmod/render": 4709,
    "src/hpcmod/sites": 1735,
    "tests": 5607,
    "tests/bench": 2316,
    "tests/corpora": 702,
    "tests/e2e": 4088,
    "tests/faults": 2378,
    "tests/fuzz": 1193,
    "tests/integration": 14268,
    "tests/jobs": 3676,
    "tests/logs": 1619,
    "tests/lumi": 1227,
    "tests/planted": 406,
    "tests/unit": 65176,
    "docs": 292,
    "docs/explanation": 1170,
    "docs/how-to": 4762,
    "docs/reference": 2044,
    "docs/tutorial": 363,
    "runscripts": 7450,
    "easyblocks": 781,
    "easyconfigs": 2434,
    "recipes": 1697,
    "dev": 1993,
}
"""Lines of each folder with all that is below it, except folders that have a line of their own."""

PICTURES = {".png", ".svg"}


def folders_without_ceiling() -> Iterator[str]:
    """Yield the folders that count for no part: packages of the source, and folders of tests and docs."""
    for top in (CHECKOUT, *(CHECKOUT / name for name in ("src/hpcmod", "tests", "docs"))):
        for folder in sorted(path for path in top.iterdir() if path.is_dir() and "." not in path.name):
            name = folder.relative_to(CHECKOUT).as_posix()
            if name.endswith(".egg-info") or not any(path.is_file() for path in folder.rglob("*")):
                continue  # pip wrote it, or an earlier version of the checkout had it
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


def test_every_folder_has_a_ceiling() -> None:
    assert list(folders_without_ceiling()) == []
