"""The commands of the how-to pages that follow other sites' documents, and the expected output of each."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
GOLDEN = CHECKOUT / "tests" / "jobs" / "golden"

SITES = {
    "lumi": {"HPCMOD_SITE": "lumi", "SBATCH_ACCOUNT": "project_465000001"},
    "marenostrum5": {"HPCMOD_SITE": "marenostrum5"},
    "frontier": {"HPCMOD_SITE": "frontier"},
    "cray-ex": {"HPCMOD_SITE": "cray-ex-gh200"},
    "jobs": {"HPCMOD_SITE": "lumi", "SBATCH_ACCOUNT": "project_465000001"},
    "stage": {"HPCMOD_SITE": "lumi", "SBATCH_ACCOUNT": "project_465000001"},
}
"""Pages in docs/how-to, and the environment variables set on the machine each is for."""

ALLOCATION = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "standard-g"}
"""Variables that `hpcmod launch` finds in a two-node allocation on LUMI."""


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    page: str
    number: int
    words: tuple[str, ...]
    """The words after `hpcmod`."""

    @property
    def name(self) -> str:
        """Name of its golden file."""
        is_text = "--salloc" in self.words or self.words[0] == "launch"
        return f"{self.page}-{self.number}.{'txt' if is_text else 'sh'}"

    @property
    def golden(self) -> Path:
        """Path of its golden file."""
        return GOLDEN / self.name

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that it runs with."""
        return {**SITES[self.page], **(ALLOCATION if self.words[0] == "launch" else {})}


def text_of(page: str) -> str:
    return (CHECKOUT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text_of(page), re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[Command]:
    """Return the commands of a page that write batch scripts or run steps, in order."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    found = [shlex.split(line)[1:] for line in lines if re.match(r"hpcmod (job|launch) ", line)]
    return [Command(page, number, tuple(words)) for number, words in enumerate(found, 1)]


COMMANDS = [command for page in SITES for command in commands(page)]
