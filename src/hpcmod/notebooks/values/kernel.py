"""A Jupyter kernel specification that starts ipykernel in a container."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.text import away_from_here, check_plain

_NAME = re.compile(r"[a-z0-9._-]+")
"""Names of kernels that all Jupyter clients accept."""

_CONNECTION = "{connection_file}"
"""Replaced by the Jupyter client with the path of a file that it writes for each kernel it starts."""

_HOST_COMMANDS = "HPCMOD_HOST_COMMANDS"
"""Variable that makes the run scripts offer commands of the host in the container."""


@dataclass(frozen=True)
class KernelSpec:
    """A kernel specification written by hpcmod."""

    name: str
    """Name of its directory, and the name by which clients start it."""
    display_name: str
    """Name that notebooks show."""
    module: str
    root: str
    """Directory of the installation."""
    argv: tuple[str, ...]
    host_commands: bool = False
    """Whether notebooks may run the commands of the host that the site profile allows."""


def make_kernel(
    program: str, module: str, root: str, *, name: str = "", display_name: str = "", host_commands: bool = False
) -> KernelSpec:
    """Return the kernel of an installation.

    `program`: Path of the installation's `in-environment`, which needs neither hpcmod nor a module tool.
    `name`: Name of the kernel; empty: the module's, in lower case.
    `display_name`: Name that notebooks show; empty: the module's name.
    `host_commands`: Whether notebooks may run the commands of the host that the site profile allows.

    Raises BadInputError if Jupyter would not accept the name.
    """
    chosen = name or re.sub(r"[^a-z0-9._-]", "-", module.lower())
    if not _NAME.fullmatch(chosen) or chosen in (".", ".."):
        raise BadInputError(
            f"{chosen!r} is not a valid kernel name",
            "Use lower-case letters, digits, `.`, `_` and `-`: --name NAME",
        )
    check_plain(display_name, "--display-name")
    launch = "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"
    start = (program, "exec", "--bind", _CONNECTION, "--", "python", "-c", away_from_here(launch), "-f", _CONNECTION)
    return KernelSpec(chosen, display_name or module, module, root, start, host_commands)


def render_kernel(kernel: KernelSpec) -> str:
    """Render the file kernel.json."""
    values = {
        "argv": list(kernel.argv),
        "display_name": kernel.display_name,
        "language": "python",
        **({"env": {_HOST_COMMANDS: "1"}} if kernel.host_commands else {}),
        "metadata": {"debugger": True, "hpcmod": {"module": kernel.module, "root": kernel.root}},
    }
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def parse_kernel(name: str, text: str) -> KernelSpec | None:
    """Parse a kernel.json; None if hpcmod did not write it."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    ours = _table(_table(values, "metadata"), "hpcmod")
    if not ours or not isinstance(values.get("argv"), list):
        return None
    argv = tuple(str(word) for word in values["argv"])
    shown = str(values.get("display_name", name))
    offers = _HOST_COMMANDS in _table(values, "env")
    return KernelSpec(name, shown, str(ours.get("module", "")), str(ours.get("root", "")), argv, offers)


def _table(values: Any, key: str) -> dict[str, Any]:
    table = values.get(key) if isinstance(values, dict) else None
    return table if isinstance(table, dict) else {}
