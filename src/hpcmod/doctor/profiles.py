"""Find the mistakes in a site profile, without comparing it with a machine as `hpcmod site check` does."""

from __future__ import annotations

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.documents import load_toml
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.machine.values.profile import find_faults
from hpcmod.machine.values.schema import SCHEMA
from hpcmod.machine.values.sources import list_entries

_TABLES = {key.partition(".")[0] for key in SCHEMA}
"""First words of all keys of a profile."""

_CURE = "Fix this key; `hpcmod site show generic` prints a valid profile."


def is_profile(text: str) -> bool:
    """Return whether a TOML file is a site profile, or is none of the other kinds: an EDF, a Python project."""
    try:
        keys = load_toml(text, "").keys()
    except BadInputError:
        return True
    return "image" not in keys and len(keys & _TABLES) * 2 >= len(keys)


def lint_profile(text: str, source: str) -> tuple[Finding, ...]:
    """Return the mistakes in a site profile, in line order.

    Parameters
    ----------
    text
        The complete file. Profiles that it extends are not read.
    source
        Its name, for messages.
    """
    try:
        faults = find_faults(text, source)
    except BadInputError as err:
        return (Finding(FAIL, "does-not-load", err.message, err.cure, line=1),)
    found = (
        Finding(FAIL, "unknown-key" if ": unknown key" in fault else "invalid-value", fault, _CURE, line=line)
        for line, fault in faults
    )
    return tuple(sorted(found, key=lambda one: (one.line, one.found)))


def check_profile(text: str, source: str) -> tuple[Finding, ...]:
    """Check a profile by itself: its keys and values, and that a comment says where each value is from.

    Parameters as for `lint_profile`.
    """
    values = [entry for entry in list_entries(text) if entry.says_something]
    bare = [entry for entry in values if not entry.comment.strip()]
    cure = "Write above it who says so: a document with its address, or the command that printed it."
    faults = lint_profile(text, source)
    count = f"{len(values)} values, {len(values) - len(bare)} with a comment about their source"
    return (
        *faults,
        *(Finding(WARN, "no-source", f"{one.key} has no comment", cure, source, one.line) for one in bare),
        *([] if faults else [Finding(OK, "profile", count, subject=source)]),
    )
