"""The time as records have it."""

from __future__ import annotations

import time


def now_text() -> str:
    """Return the current time in the form used in records: ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
