"""Keep the host's Python out of the container: variables to set there unless the image sets them itself."""

from __future__ import annotations

from collections.abc import Collection

from hpcmod.core.values.facts import ImageFacts
from hpcmod.machine.values.site import HOST_PYTHON, USER_SITE

_SET_BY_USERS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD")

ALWAYS, BEFORE, PACKAGES = "always", "before", "packages"
"""Whether it is kept out always, if set before the module was loaded, or always and told if ~/.local has any."""

Guard = tuple[tuple[str, str], ...]
"""Container variables, with values."""


def make_guard(facts: ImageFacts | None, *, without: Collection[str] = ()) -> Guard:
    """Return the container variables, with values, that shield it from the host's Python environment.

    Variables that the image sets are left out: the image's value overrides the host's, and ours would override it.
    Python, conda and the loader treat an empty value as unset.

    `without`: Variables that are passed to the container, or set there by others.
    """
    own = facts.assigned if facts else ()
    pairs = (*((name, "") for name in HOST_PYTHON), (USER_SITE, "1"))
    return tuple(pair for pair in pairs if pair[0] not in own and pair[0] not in without)


def kind_of(name: str, user_site: str) -> str:
    """Return when a guarded variable is kept out: ALWAYS, BEFORE or PACKAGES.

    Programs such as conda set some of the variables at any time. The others are set by users for what they run in the
    container, so a value from after loading is meant for it.

    `user_site`: Directory of the image's Python below ~/.local; empty if it is not known.
    """
    if name == USER_SITE and user_site:
        return PACKAGES
    return BEFORE if name in _SET_BY_USERS else ALWAYS
