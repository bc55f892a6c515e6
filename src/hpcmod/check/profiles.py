"""Find the mistakes in a site profile, without comparing it with a machine as `hpcmod site check` does."""

from __future__ import annotations

from hpcmod.errors import BadInputError
from hpcmod.model.finding import FAIL, Finding
from hpcmod.model.profiles.profile import find_faults

_CURE = "Fix this key; `hpcmod site show generic` prints a valid profile."


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
