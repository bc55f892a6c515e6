"""Swap: whether a container uses the host's network libraries, and how its loader is made to search them first."""

from __future__ import annotations

from collections.abc import Sequence

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import ImageFacts
from hpcmod.machine.values.site import IN_CONTAINER, NETSTACK_MODES, Site

OFI_LABEL = "org.hpcmod.ofi"
"""Image label that says where its libfabric comes from: builtin, swap or none."""


def swaps_libraries(facts: ImageFacts | None, site: Site) -> bool:
    """Return whether the host's network libraries take precedence over the image's."""
    label = dict(facts.labels).get(OFI_LABEL, "") if facts else ""
    netstack = site.network.netstack
    wanted = netstack.mode == "swap" or (netstack.mode == "auto" and label not in ("builtin", "none"))
    return wanted and bool(netstack.directory)


def with_mode(site: Site, word: str) -> Site:
    """Return the site with the mode that an easyconfig requests; `auto` keeps the site's mode.

    Raises BadInputError if the mode is unknown.
    """
    if word not in NETSTACK_MODES:
        raise BadInputError(f"netstack: unknown mode {word!r}", f"Use one of {', '.join(NETSTACK_MODES)}.")
    if word == "auto":
        return site
    netstack = site.network.netstack._replace(mode=word)
    return site._replace(network=site.network._replace(netstack=netstack))


def make_library_path(last: Sequence[str]) -> str:
    """Return the container's LD_LIBRARY_PATH: the host's directory, the image's own value, then `last`.

    Notes
    -----
    A value set from outside would replace the image's. But the runtimes evaluate it inside, after the image's scripts,
    under exec, run and shell (Apptainer 1.4.5, tested; SingularityCE, its pull request 704). If `--no-eval` forbids
    that, the unevaluated string still begins with the host's directory. It never has an empty entry, which would mean
    the current directory.
    """
    return ":".join([IN_CONTAINER, f"${{LD_LIBRARY_PATH:-{IN_CONTAINER}}}", *last])
