"""Report what an easyconfig keeps of the way in which a foreign recipe runs its container."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hpcmod.errors import BadInputError
from hpcmod.importing.mounts import SQUASHFS, shell_text
from hpcmod.importing.variables import Variables
from hpcmod.model.spec import why_no_variable

_LONGEST_SHOWN = 2000  # characters of a value in a message
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}")


@dataclass
class Findings:
    """What is not the same in the easyconfig, one clause each."""

    left_out: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def carry_environment(
    pairs: Iterable[tuple[str, str]], variables: Variables, said: Findings, *, empty: str
) -> list[tuple[str, str]]:
    """Return the variables that an easyconfig can set; report the others.

    Parameters
    ----------
    empty
        What an empty value means in the recipe; empty: the same as in an easyconfig.
    """
    chosen = []
    for name, given in pairs:
        try:
            value = variables.substitute(given)
            reason = why_no_variable(name, value)
        except BadInputError as err:
            value, reason = given, err.message
        if reason:
            said.left_out.append(f"the variable {shown_text(name)}: {shown_text(reason)}{_how_to_set(name, given)}")
            continue
        chosen.append((name, value))
        if not value and empty:
            said.changed.append(f"the variable {name} is empty in the container; {empty}")
    if chosen:
        said.changed.append("variables that you set before loading the module win over those of the file")
    return chosen


def _how_to_set(name: str, given: str) -> str:
    """Return how a user can set a variable of the container; empty if that is not possible.

    Notes
    -----
    The runtime evaluates these variables in the container: text with other expansions would be run as code there.
    """
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or re.search(r"[$`\\]", _REFERENCE.sub("", given)):
        return ""
    after = given.removeprefix(f"${{{name}}}:")
    if name == "PATH" and after != given:
        name, given = "APPEND_PATH", after
    elif name == "PATH" and given.endswith(":${PATH}"):
        first = shell_text(f"{shown_text(given.removesuffix('${PATH}'))}${{SINGULARITYENV_PREPEND_PATH}}")
        both = f"SINGULARITYENV_PREPEND_PATH={first} APPTAINERENV_PREPEND_PATH={first}"
        return f"; after loading the module: export {both}"
    return f"; after loading the module: export SINGULARITYENV_{name}={shell_text(shown_text(given))}"


def report_binds_by_hand(mounts: Sequence[str], said: Findings) -> None:
    """Report how a user can bind what an easyconfig cannot, because it depends on the user: SOURCE:TARGET[:FLAGS]."""
    if mounts:
        listed = shell_text(",".join(map(_bind_by_hand, mounts)))
        said.left_out.append(f"for these mounts, before loading the module: export SINGULARITY_BINDPATH={listed}")


def _bind_by_hand(mount: str) -> str:
    """Return a mount as a bind of the runtime, with the directories of the user as variables."""
    text = re.sub(r"^~/", "${HOME}/", re.sub(r"^\./", "${PWD}/", shown_text(mount)))
    found = re.search(r":([A-Za-z+,=-]+)$", text)
    if not found:
        return text
    flags = re.split("[+,]", found[1])
    return text[: found.start()] + (f":{SQUASHFS}" if "sqsh" in flags else ":ro" if "ro" in flags else "")


def shown_text(text: str) -> str:
    """Return text of a recipe for a message, cut if it is very long."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
