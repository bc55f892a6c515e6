"""Facts about a job, read from a batch script that `hpcmod job` wrote."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_NAME = re.compile(r"^#SBATCH --job-name=(\S+)", re.MULTILINE)
_IMAGE = re.compile(r"^# Image: sha256 ([0-9a-f]{64})\b", re.MULTILINE)


@dataclass(frozen=True)
class WrittenJob:
    """A job as described by its script; a field is empty if the script does not mention it."""

    name: str
    module: str
    trees: tuple[str, ...]
    """Directories of modulefiles that it uses, highest priority first."""
    sha256: str
    """sha256 of the image it was written for."""


def read_written_job(script: str) -> WrittenJob:
    """Return the name, module and image of a job from its script."""
    commands = list(_module_commands(script))
    loads = [words[1] for words in commands if words[0] == "load" and len(words) > 1]
    uses = [words[1] for words in commands if words[0] == "use" and len(words) > 1]
    name, image = _NAME.search(script), _IMAGE.search(script)
    return WrittenJob(
        name=name[1] if name else "",
        module=loads[0] if loads else "",
        trees=tuple(reversed(uses)),  # the last `module use` comes first on MODULEPATH
        sha256=image[1] if image else "",
    )


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
