"""Swap: whether a container uses the host's network libraries, and how its loader comes to look at them first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpcmod.errors import BadInputError
from hpcmod.model.facts import ImageFacts
from hpcmod.model.site import IN_CONTAINER, NETSTACK_MODES, Site

OFI_LABEL = "org.hpcmod.ofi"
"""Label of an image that tells where its libfabric is to come from: builtin, swap or none."""


def swaps_libraries(facts: ImageFacts | None, site: Site) -> bool:
    """Return whether the host's network libraries come before the image's."""
    label = dict(facts.labels).get(OFI_LABEL, "") if facts else ""
    wanted = site.netstack.mode == "swap" or (site.netstack.mode == "auto" and label not in ("builtin", "none"))
    return wanted and bool(site.netstack.directory)


def with_mode(site: Site, word: str) -> Site:
    """Give a site the mode that an easyconfig asks for; with `auto` it keeps its own.

    Raises
    ------
    BadInputError
        If there is no such mode.
    """
    if word not in NETSTACK_MODES:
        raise BadInputError(f"netstack: {word!r} is none of {', '.join(NETSTACK_MODES)}", "Use one of these.")
    return site if word == "auto" else replace(site, netstack=replace(site.netstack, mode=word))


def make_library_path(last: Sequence[str]) -> str:
    """Make the LD_LIBRARY_PATH of the container: the host's directory, what the image sets, and some to search last.

    Notes
    -----
    A value from outside would replace the image's. But the runtimes evaluate it inside, after the image's scripts,
    under exec, run and shell alike (Apptainer 1.4.5, tried; SingularityCE, its pull request 704). Where `--no-eval`
    forbids that, the text as it stands still begins with the host's directory. It never has an empty entry: that would
    stand for the current directory.
    """
    return ":".join([IN_CONTAINER, f"${{LD_LIBRARY_PATH:-{IN_CONTAINER}}}", *last])
