"""Remove a leaf room from a copy of the checkout: without.py ROOM COPY; --rooms WORD... prints those that are meant.

What goes is what one would remove for good: the room's folder, its name in the registry, its lines in setup.cfg, its
tests and pages, and on other pages what names one of these or its commands.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from hpcmod.core.registry import ROOMS, load

BESIDE = {
    "packages": ["docs/how-to/user-packages.md", "docs/how-to/conda-packages.md", "docs/how-to/bake.md"],
    "building": [
        *("recipes", "easyblocks/containerbuild.py", "docs/how-to/build.md", "docs/reference/recipes.md"),
        *(f"easyconfigs/p/PyTorch/PyTorch-2.13.0-cpu-{mpi}-singularity.eb" for mpi in ("ompi", "mpich")),
    ],
    "notebooks": ["docs/how-to/jupyter.md", "docs/how-to/vscode.md"],
    "runs": [
        *(f"docs/how-to/{name}.md" for name in ("hanging-job", "known-endings", "check-nodes", "profile", "bench")),
        *("docs/reference/log-rules.md", "docs/explanation/run-diagnosis.md"),
    ],
    "lint": ["docs/how-to/batch-scripts.md", "docs/reference/lint-rules.md"],
    "importing": ["docs/how-to/import.md", "docs/reference/import-keys.md"],
}
"""By leaf room: what belongs to it outside of its folder and that of its unit tests."""


def meant(words: list[str]) -> list[str]:
    """Return the rooms that the words of the command line mean."""
    if words == ["all"]:
        return list(BESIDE)
    if words == ["turn"]:
        return [list(BESIDE)[time.localtime().tm_yday % len(BESIDE)]]
    if unknown := set(words) - set(BESIDE):
        sys.exit(f"without: not a leaf room: {', '.join(sorted(unknown))}\n  cure: name some of {', '.join(BESIDE)}")
    return words


def commands_of(room: str) -> list[str]:
    """Return the commands of a room, as they are typed after `hpcmod`."""
    return [
        f"{heading.partition('hpcmod ')[2]} {name}".strip()
        for heading, commands in load(f"hpcmod.{room}.room:ROOM").commands.items()
        for name in commands
    ]


def traces(room: str) -> re.Pattern[str]:
    """Return the pattern of all that names a room, its files, pages or commands in text."""
    shown = (name.rpartition("/")[2] if name.endswith((".md", ".eb")) else name for name in BESIDE[room])
    paths = [rf"(?<![\w-]){re.escape(name)}" for name in shown]
    names = "|".join(map(re.escape, commands_of(room)))
    return re.compile(rf"hpcmod[./]{room}\b|`{room}/|tests/unit/{room}/|hpcmod ({names})\b|{'|'.join(paths)}")


def parts_of(text: str) -> Iterator[str]:
    """Yield the parts of a page: a line of a table or of commands, other code, an item of a list, or a paragraph."""
    for number, block in enumerate(re.split(r"(^ *```\w*\n.*?^ *```\n)", text, flags=re.MULTILINE | re.DOTALL)):
        if number % 2 == 0:
            yield from re.split(r"(?m)^(?=\||- |#|\d+\. |\n)", block)
        elif block.lstrip().startswith("```lua"):
            yield block.replace("hpcmod ", "hpcmod\0")  # a modulefile stays as hpcmod writes it
        else:
            yield from block.splitlines(keepends=True)


def remove(room: str, copy: Path) -> None:
    """Remove a room from a copy of the checkout."""
    pattern = traces(room)
    for name in (f"src/hpcmod/{room}", f"tests/unit/{room}", *BESIDE[room]):
        path = copy / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    registry, setup = copy / "src/hpcmod/core/registry.py", copy / "setup.cfg"
    registry.write_text(re.sub(rf'"{room}"(, )?', "", registry.read_text(), count=1))
    gone = rf"hpcmod\.({'|'.join([room, *BESIDE[room]])})\b"
    setup.write_text("".join(line for line in setup.read_text().splitlines(True) if not re.search(gone, line)))
    for page in (*copy.glob("*.md"), *(copy / "docs").rglob("*.md")):
        kept = "".join(part for part in parts_of(page.read_text()) if not pattern.search(part))
        page.write_text(kept.replace("\0", " "))


def compare(room: str, text: str) -> None:
    """Check the help of what is left: it has all other commands, and none of the room."""
    shown = set(re.findall(r"^  ([a-z]\w*)  ", text, re.MULTILINE))
    expected = {name for other in ROOMS if other != room for name in commands_of(other) if " " not in name}
    if shown != expected:
        sys.exit(f"without: hpcmod --help differs in {', '.join(sorted(shown ^ expected))}")
    gone = ", ".join(sorted(commands_of(room)))
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
