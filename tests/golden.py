"""Golden files: generated texts kept in the repository, so that changes to them show up in diffs."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
RENEW = "If you meant to change it: run `./dev/test --golden`, then read `git diff`."
"""Last line of every failed comparison; CONTRIBUTING.md says the same."""
_MOST_LINES = 40


def renewing() -> bool:
    """Return whether to write golden files instead of comparing with them."""
    return bool(os.environ.get("HPCMOD_UPDATE_GOLDEN"))


def check_golden(path: Path, text: str) -> None:
    """Compare a generated text with its golden file, or write the file if HPCMOD_UPDATE_GOLDEN is set.

    Use the fixture `golden`, which marks the test so that `./dev/test --golden` runs it.
    """
    kept = path.read_text(encoding="utf-8") if path.exists() else None
    if kept == text:
        return
    if renewing():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    name = path.relative_to(CHECKOUT) if CHECKOUT in path.parents else path
    old, new = (kept or "").splitlines(), text.splitlines()
    lines = list(difflib.unified_diff(old, new, f"{name}", "generated now", lineterm=""))
    shown = lines[:_MOST_LINES] + [f"... {len(lines) - _MOST_LINES} more lines"] * (len(lines) > _MOST_LINES)
    pytest.fail("\n".join([f"{name} is not what the code generates.", *shown, RENEW]), pytrace=False)
