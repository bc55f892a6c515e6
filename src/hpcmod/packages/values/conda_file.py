"""Read a conda environment.yml: packages, channels, and its part for pip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.documents import load_yaml
from hpcmod.packages.values.conda import conda_name
from hpcmod.packages.values.requirement import Requirements, parse_file
from hpcmod.packages.values.sources import LeftOut

_OF_PYTHON = ("python", "pip")
_NOT_CHANNELS = ("defaults", "nodefaults")
"""Names that stand for no channel here: `defaults` is a setting of conda's own installation."""


@dataclass(frozen=True)
class CondaFile:
    """The content of an environment.yml."""

    specs: tuple[str, ...]
    """conda packages, as in the file."""
    channels: tuple[str, ...]
    pip: Requirements
    left_out: tuple[LeftOut, ...]
    """What does not apply to the image."""


def parse_conda_file(
    text: str, path: str, read: Callable[[str], str], exists: Callable[[str], bool], *, own: bool = False
) -> CondaFile:
    """Parse an environment.yml.

    `path`, `read`, `exists`: As for `parse_file`.
    `own`: Whether it is for an environment of its own, which may have Python and pip.

    Raises BadInputError if it is not a conda environment; LackingError if PyYAML is not installed.
    """
    values = load_yaml(text, path)
    listed = values.get("dependencies") if isinstance(values, dict) else None
    if not isinstance(listed, list):
        raise BadInputError(f"{path}: no list `dependencies`", "Write one with: conda env export")
    specs, pip = [], []
    for entry in listed:
        if isinstance(entry, str):
            specs.append(entry.strip())
        elif isinstance(entry, dict) and set(entry) == {"pip"} and isinstance(entry["pip"], list):
            pip += [line for line in entry["pip"] if isinstance(line, str)]
        else:
            raise BadInputError(f"{path}: {str(entry)[:200]!r} is neither a package nor `pip:`", "Remove it.")

    def read_pip(file: str) -> str:
        return "\n".join(pip) if file == path else read(file)

    of_image = () if own else _OF_PYTHON
    left_out = [LeftOut(spec, "the image's is used") for spec in specs if conda_name(spec) in of_image]
    variables = values.get("variables")
    names = variables if isinstance(variables, dict) else ()
    left_out += [LeftOut(f"variable {name}", "set it in the shell") for name in names]
    named = values.get("channels")
    channels = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    left_out += [LeftOut(name, "not the name of a channel; see --channel") for name in channels if name == "defaults"]
    return CondaFile(
        tuple(spec for spec in specs if conda_name(spec) not in of_image),
        tuple(channel for channel in channels if channel not in _NOT_CHANNELS),
        parse_file(path, read_pip, exists),
        tuple(left_out),
    )
