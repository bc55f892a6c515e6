"""Mounts of foreign recipes as bind paths of easyconfigs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpcmod.errors import BadInputError
from hpcmod.model.bind import KERNEL, Bind, can_be_bound

SQUASHFS = "image-src=/"
"""Option of a bind whose source is an image of a file system.

Source: https://apptainer.org/docs/user/latest/bind_paths_and_mounts.html, "Image Mounts", read 2026-11.
"""

_SAME = frozenset({"rw", "bind", "rbind", "nosuid", "nodev", "z", "Z", "cached", "delegated", "consistent"})
"""Flags that describe what the runtime does anyway, or that matter only on a desktop."""


def make_bind(source: str, destination: str, flags: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Return a bind path for an easyconfig, and the flags that are lost.

    Parameters
    ----------
    flags
        Of the foreign tool, e.g. ("ro", "private"); `sqsh`: the source is a squashfs file that is mounted.

    Raises
    ------
    BadInputError
        If an easyconfig cannot describe the mount.
    """
    for what, path in (("source", source), ("destination", destination or source)):
        if not path.startswith("/"):
            raise BadInputError(f"its {what} {path!r} is not an absolute path", "")
        if not can_be_bound(path):
            raise BadInputError(f"its {what} {path!r} contains a character that a bind path cannot have", "")
    if re.search(r"[*?]", source) or KERNEL in source:
        raise BadInputError(f"its source {source!r} would be a pattern in a bind path", "")
    option = SQUASHFS if "sqsh" in flags else "ro" if "ro" in flags else ""
    bind = Bind(source, "" if destination in ("", source) and not option else destination or source, option)
    lost = tuple(one for one in flags if one not in ("", "sqsh", "ro", *_SAME) and not one.startswith("x-create="))
    return str(bind), lost


def shell_text(text: str) -> str:
    """Quote text for a shell so that only its `${NAME}` and `${NAME:-}` are expanded, and `$$` means `$`."""
    special = r'\$\$|[\\"`]|\$(?!\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\})'
    return '"' + re.sub(special, lambda found: f"\\{found[0][-1]}", text) + '"'
