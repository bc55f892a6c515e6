"""Words and names: plain English in what users read, and one meaning for each public name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hpcmod"

PLAIN = {
    "vouch": "verify, sign",
    "mend(s|ed|ing)?": "fix, repair",
    "larder": "store",
    "to be had": "available",
    "as of every": "see the base class",
    "foresee[n]?|foresight": "plan, dry run",
    "nobody's": "orphaned, no user's",
    "said aloud": "reported",
    "let go": "release, retire",
    "is no digest": "is not a valid digest",
    "to be mended|stumbles?": "broken, fails",
    "held to": "checked against, must satisfy",
    "taken for": "mistaken for, treated as",
    "passed over": "skipped, ignored",
    "stands for": "means, is",
    "for ever": "forever",
}
"""Words of our former style, and what to write instead."""


def sources() -> Iterator[Path]:
    yield from PACKAGE.rglob("*.py")
    texts = (("src", "j2"), ("src", "toml"), ("runscripts", "j2"), ("easyblocks", "py"), ("docs", "md"))
    for directory, ending in (*texts, ("dev", "*"), ("recipes", "*")):
        yield from (path for path in (ROOT / directory).rglob(f"*.{ending}") if path.is_file())
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))


@cache
def texts() -> list[tuple[Path, str]]:
    return [(path, path.read_text(errors="replace")) for path in sources()]


@pytest.mark.parametrize("word", PLAIN)
def test_people_read_plain_english(word: str) -> None:
    pattern = re.compile(rf"\b({word})\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in texts()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"instead of {word!r} write: {PLAIN[word]}"


PUBLIC = re.compile(r"^(?:class|def) ([A-Za-z]\w*)", re.MULTILINE)


def test_a_public_name_means_one_thing() -> None:
    """Functions of cli/ are excluded: they have the names of the commands that users type."""
    found = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        if "cli" not in path.relative_to(PACKAGE).parts:
            for name in PUBLIC.findall(path.read_text()):
                found[name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_every_term_of_the_glossary_is_sorted_and_used() -> None:
    text = (ROOT / "docs/explanation/glossary.md").read_text()
    rows = [re.findall(r"\*\*([^*]+)\*\*", line) for line in text.splitlines() if line.startswith("| **")]
    first = [row[0].lower() for row in rows]
    assert first == sorted(set(first))
    others = "\n".join(path.read_text() for path in (ROOT / "docs").rglob("*.md") if path.name != "glossary.md").lower()
    assert [term for row in rows for term in row if term.lower() not in others] == []
