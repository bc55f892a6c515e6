"""Names of the faults."""

from __future__ import annotations

ERRORS = ("EIO", "ENOSPC", "EDQUOT", "ESTALE")
KILL = "KILL"

PLACE_ERRORS = ("EIO", "EDQUOT", "ESTALE")
"""Errors to try once at each place; ENOSPC and KILL are tried at each point."""
