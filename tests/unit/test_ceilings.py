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
    "src/hpcmod/core": 5443,  # 12: locks where no byte is free; 10: which runtimes read zstd; 106: signers, Ctrl-C
    "src/hpcmod/machine": 4331,  # 1: Lmod before the other tool; 29: the runtime, which was in three rooms
    "src/hpcmod/images": 9956,  # 3: --compression of a SIF; bundles of cosign 3; 201: keyless signers, attestations
    "src/hpcmod/modules": 5400,  # 4: no file of eb is left; 25: dry runs, an EASYBUILD_PREFIX not to be written
    "src/hpcmod/compat": 3439,  # 31: the compression of an image that the runtime cannot read
    "src/hpcmod/catalogue": 12114,  # 9: info on a licence; 60: undo, groups of images; 75: pages, refresh; 104: compat
    "src/hpcmod/jobs": 3330,  # 1: Slurm's last line; 4: a job of a retired container
    "src/hpcmod/doctor": 1901,  # 3: the cure for a copy of the site; 3: nodes that were asked; 34: the schema
    "src/hpcmod/packages": 6830,  # 5: a failed first add; 15 more: a lock for other machines, a single package in words
    "src/hpcmod/building": 2717,  # 15: --compression also of a definition file; 42: the shape of a recipe
    "src/hpcmod/notebooks": 1226,  # 196 more: Open OnDemand
    "src/hpcmod/runs": 7071,  # 67: libraries that are too old, mixed stacks; 164: why ranks do not meet, endings
    "src/hpcmod/lint": 2600,
    "src/hpcmod/importing": 2195,
    "tests": 4865,  # 2: a golden file that is not renewed, what eb prints; before: stand-ins, signers, schemas
    "tests/bench": 1110,
    "tests/corpora": 415,
    "tests/e2e": 2842,  # 74 more: examples
    "tests/faults": 1845,
    "tests/fuzz": 700,
    "tests/integration": 12452,  # 30: full disks; 44: groups of restricted images; 68: an active environment
    "tests/jobs": 2610,  # 5: a script with idle tasks
    "tests/logs": 1366,  # 6: a plugin whose library is too old
    "tests/lumi": 980,
    "tests/planted": 205,
    "tests/unit": 53527,  # 80: full disks, failed adds, licences; 64: undo, modes; 123: mixed stacks, old libraries
    "docs": 122,  # 2 more: a list of examples
    "docs/examples": 516,  # programs that run, with their pages
    "docs/explanation": 1071,  # 2: locks on full disks; 83 more: a comparison with other tools; 4: signers
    "docs/how-to": 4312,  # 6: packages on a full disk; 4: labels of ranks, py-spy; 5: restore and undo, dry runs
    "docs/reference": 1771,  # 1: a reason; 67: profiles in an editor, known limits; 7: lint; 6: versions, a limit
    "docs/tutorial": 350,  # 110 more: the first ten minutes on a cluster
    "runscripts": 6500,  # 3: pip and ~/.local
    "easyblocks": 609,  # 4: the plan of a dry run
    "easyconfigs": 2130,
    "recipes": 1430,
    "dev": 2823,  # 11: renewed files, a heading; 13: a row of Apptainer; 457: an easyconfig, Spack, pages for axe
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
            if name in ("build", "dist"):  # left by pip and dev/release
                continue
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
