"""Facts about a job, read from a batch script that `hpcmod job` wrote."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcmod.modules.values.place import CHOOSING

_NAME = re.compile(r"^#SBATCH --job-name=(\S+)", re.MULTILINE)
_IMAGE = re.compile(r"^# Image: sha256 ([0-9a-f]{64})\b", re.MULTILINE)
_PACKAGES = re.compile(r"^# Packages: (.+)", re.MULTILINE)
_CHOICE = re.compile(rf"^export ({'|'.join(CHOOSING)})=(?:'([^'\n]*)'|([^\s'\"$`\\]*))(?=\s)", re.MULTILINE)


@dataclass(frozen=True)
class WrittenJob:
    """A job as described by its script; a field is empty if the script does not mention it."""

    name: str
    module: str
    trees: tuple[str, ...]
    """Directories of modulefiles that it uses, highest priority first."""
    sha256: str
    """sha256 of the image it was written for."""
    packages: str = ""
    """File of the user's packages that it was written for."""
    choice: tuple[tuple[str, str], ...] = ()
    """Variables that choose its packages."""


def read_written_job(script: str) -> WrittenJob:
    """Return the name, module and image of a job from its script."""
    commands = list(_module_commands(script))
    loads = [words[1] for words in commands if words[0] == "load" and len(words) > 1]
    uses = [words[1] for words in commands if words[0] == "use" and len(words) > 1]
    name, image, packages = (pattern.search(script) for pattern in (_NAME, _IMAGE, _PACKAGES))
    return WrittenJob(
        name=name[1] if name else "",
        module=loads[0] if loads else "",
        trees=tuple(reversed(uses)),  # the last `module use` comes first on MODULEPATH
        sha256=image[1] if image else "",
        packages=packages[1] if packages else "",
        choice=tuple((name, quoted or plain) for name, quoted, plain in _CHOICE.findall(script)),
    )


def override_options(script: str, options: Sequence[str]) -> str:
    """Return a batch script with other options of sbatch, which replace those with the same long names."""
    old = tuple(f"#SBATCH {option.partition('=')[0]}" for option in options if "=" in option)
    lines = script.split("\n")
    kept = [line for line in lines if line.partition("=")[0] not in old]
    last = max((at for at, line in enumerate(kept) if line.startswith("#SBATCH ")), default=0)
    return "\n".join([*kept[: last + 1], *(f"#SBATCH {option}" for option in options), *kept[last + 1 :]])


def _module_commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each line that begins with `module`, up to the next shell operator."""
    for line in script.splitlines():
        if line.startswith("module "):
            try:
                words = shlex.split(line, comments=True)[1:]
            except ValueError:
                continue
            end = next((at for at, word in enumerate(words) if word in ("||", "&&", ";")), len(words))
            if words[:end]:
                yield words[:end]
