"""Compare the host's environment with the container's: what differs, variable by variable, and what set it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

PREFIXES = ("APPTAINERENV_", "SINGULARITYENV_")
"""Prefixes of variables meant only for the container; if both are set, Apptainer uses the first (1.4.5, tested)."""

NOTES = "_HPCMOD_"
"""Prefix of the variables in which hpcmod's modules record what they set."""


@dataclass(frozen=True)
class Difference:
    """One variable on the host and in the container."""

    name: str
    host: str | None
    """None: not set."""
    container: str | None
    set_by: str
    """What set the value in the container, or removed the variable."""


def compare_environments(
    host: Mapping[str, str], container: Mapping[str, str], *, image: Collection[str]
) -> tuple[Difference, ...]:
    """Compare every variable of both sides, sorted by name; container-only variables and our records are left out.

    `image`: Names that the image's own scripts may assign.
    """
    names = {name for name in (*host, *container) if not name.startswith((*PREFIXES, NOTES))}
    return tuple(
        Difference(name, host.get(name), container.get(name), _who(name, host, container, image))
        for name in sorted(names)
    )


def _who(name: str, host: Mapping[str, str], container: Mapping[str, str], image: Collection[str]) -> str:
    given = next((f"{prefix}{name}" for prefix in PREFIXES if f"{prefix}{name}" in host), None)
    value = container.get(name)
    if given and (value == host[given] or name == "LD_LIBRARY_PATH"):  # assembled by the runtimes
        return f"{_setter(given, host)}, by {given}"
    if name == "PATH":
        return "the image, with SINGULARITYENV_PREPEND_PATH"
    if name in image:
        return "the image"
    if value is None:
        return "the runtime, which does not pass it on"
    if value == host.get(name):
        return f"{_setter(name, host)} on the host"
    return "the runtime"


def _setter(name: str, host: Mapping[str, str]) -> str:
    """Return whether a module or the user set a variable, according to the module's records."""
    module = host.get(f"{NOTES}CONTAINER", "").rpartition(" ")[2]
    noted = {word for note, words in host.items() if note.startswith(NOTES) for word in words.split()}
    names = (name, name.replace("APPTAINERENV_", "SINGULARITYENV_"))  # modules record the first name of a pair
    ours = noted & {f"{one}={kind}" for one in names for kind in ("ours", "unset", "value", "empty")}
    return f"the module {module}" if ours else "you"
