"""Read the options of sbatch, srun, Singularity and Apptainer from words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.lint.jobs.reading.syntax import Word


@dataclass(frozen=True)
class Option:
    """An option by its long name without dashes, e.g. nodes; the value is empty if it has none."""

    name: str
    value: str
    line: int


SLURM_SHORT = {
    "A": "account", "C": "constraint", "D": "chdir", "G": "gpus", "J": "job-name", "N": "nodes", "c": "cpus-per-task",
    "d": "dependency", "e": "error", "m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos",
    "t": "time", "w": "nodelist", "x": "exclude", "a": "array", "i": "input", "L": "licenses", "T": "threads",
    "M": "clusters", "F": "nodefile", "S": "core-spec", "B": "extra-node-info", "W": "wait", "b": "begin",
}  # fmt: skip
"""Options of srun and sbatch with a value, by letter (srun(1), sbatch(1) of Slurm 22.05)."""

SLURM_FLAGS = {
    "exclusive", "label", "unbuffered", "kill-on-bad-exit", "overlap", "pty", "verbose", "quiet", "no-kill",
    "contiguous", "hold", "immediate", "multi-prog", "spread-job", "use-min-nodes", "disable-status", "test-only",
    "exact", "whole", "interactive", "x11", "propagate", "requeue", "no-requeue", "parsable", "preserve-env",
    "oversubscribe", "nice", "ignore-pbs", "get-user-env", "reboot", "overcommit",
    "container-mount-home", "no-container-mount-home", "container-writable", "container-readonly",
    "container-remap-root", "no-container-remap-root", "container-entrypoint", "no-container-entrypoint",
}  # fmt: skip
"""Long options of srun and sbatch whose value, if they take one, must follow an `=`."""

_OTHER_NAMES = {"tasks-per-node": "ntasks-per-node", "cpu_bind": "cpu-bind", "pack-group": "het-group"}


def read_options(
    words: Sequence[Word], short: dict[str, str], flags: set[str], letters: dict[str, str] | None = None
) -> tuple[tuple[Option, ...], tuple[Word, ...]]:
    """Split words into options and the words after them.

    `short` has the names of the one-letter options that take a value, `letters` of those that take none, and `flags`
    the long options that take none: all others do.
    """
    options: list[Option] = []
    left = list(words)
    while left and left[0].plain.startswith("-") and left[0].plain != "--":
        word = left.pop(0)
        name, equals, value = word.plain.lstrip("-").partition("=")
        if not word.plain.startswith("--"):
            letter, rest = word.plain[1:2], word.plain[2:]
            name = short.get(letter) or (letters or {}).get(letter, letter)
            value, equals = (rest, rest) if letter in short else ("", "=")
        if not equals and name not in flags and left:
            value = left.pop(0).plain
        options.append(Option(_OTHER_NAMES.get(name, name), value, word.line))
    return tuple(options), tuple(left[1:] if left and left[0].plain == "--" else left)
