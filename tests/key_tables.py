"""Tables in the documentation that list how each key of another tool's files is handled."""

from __future__ import annotations

import re
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"

RESULTS = ("carried", "changed", "not carried", "refused")


def read_results(page: str, heading: str) -> list[tuple[str, str]]:
    """Return the first two cells of each row of the table below a heading: the keys and the result."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    section = re.split(r"^## ", text.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    rows = [re.split(r"(?<!\\) \| ", line.strip("| "))[:2] for line in section.splitlines() if line.startswith("| ")]
    return [(cells[0], cells[1]) for cells in rows[1:]]
