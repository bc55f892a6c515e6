"""Remove a leaf room from a copy of the checkout: without.py ROOM COPY; --rooms WORD... prints those that are meant.

What goes is the room's folder with its tests, its name in the registry, and its lines in setup.cfg. Pages stay: they
describe the whole project.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from hpcmod.core.registry import ROOMS, Room, rooms

LEAVES = ROOMS[ROOMS.index("packages") :]
BESIDE = {
    "building": [
        *("recipes", "easyblocks/containerbuild.py"),
        *(f"easyconfigs/p/PyTorch/PyTorch-2.13.0-cpu-{mpi}-singularity.eb" for mpi in ("ompi", "mpich")),
    ]
}
"""By leaf room: what belongs to it outside of its folder and that of its unit tests."""


def meant(words: list[str]) -> list[str]:
    """Return the rooms that the words of the command line mean."""
    if words == ["all"]:
        return list(LEAVES)
    if words == ["turn"]:
        return [LEAVES[time.localtime().tm_yday % len(LEAVES)]]
    if unknown := set(words) - set(LEAVES):
        sys.exit(f"without: not a leaf room: {', '.join(sorted(unknown))}\n  cure: name some of {', '.join(LEAVES)}")
    return words


def commands_of(room: Room) -> list[str]:
    """Return the commands of a room, as they are typed after `hpcmod`."""
    return [
        f"{heading.partition('hpcmod ')[2]} {name}".strip()
        for heading, commands in room.commands.items()
        for name in commands
    ]


def remove(room: str, copy: Path) -> None:
    """Remove a room from a copy of the checkout."""
    beside = BESIDE.get(room, [])
    for name in (f"src/hpcmod/{room}", f"tests/unit/{room}", *beside):
        path = copy / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    registry, setup = copy / "src/hpcmod/core/registry.py", copy / "setup.cfg"
    registry.write_text(re.sub(rf'"{room}"(, )?', "", registry.read_text(), count=1))
    gone = rf"hpcmod\.({'|'.join([room, *beside])})\b"
    setup.write_text("".join(line for line in setup.read_text().splitlines(True) if not re.search(gone, line)))


def compare(room: str, text: str) -> None:
    """Check the help of what is left: it has all other commands, and none of the room."""
    shown = set(re.findall(r"^  ([a-z]\w*)  ", text, re.MULTILINE))
    commands = {other.name: commands_of(other) for other in rooms()}
    gone = ", ".join(sorted(commands.pop(room)))
    expected = {name for names in commands.values() for name in names if " " not in name}
    if shown != expected:
        sys.exit(f"without: hpcmod --help differs in {', '.join(sorted(shown ^ expected))}")
    sys.stdout.write(f"{room}: hpcmod --help lists {len(shown)} commands, without {gone}\n")


def main() -> None:
    """Do what the first word says."""
    if sys.argv[1] == "--rooms":
        sys.stdout.write("".join(f"{room}\n" for room in meant(sys.argv[2:])))
    elif sys.argv[1] == "--compare":
        compare(sys.argv[2], sys.stdin.read())
    else:
        remove(sys.argv[1], Path(sys.argv[2]))


if __name__ == "__main__":
    main()
