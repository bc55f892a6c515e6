"""The log of dev/demo as docs/tutorial/demo.md shows it: what changes from run to run is put in one form."""

from __future__ import annotations

import re

FOLDER = "/var/tmp/hpcmod-dev-alice"
FENCE = re.compile(r"(?<=```console\n).*?(?=```\n)", re.DOTALL)

CHANGING = (
    (r"\nWARNING: 'g(cc|\+\+)' command not found in .*\n\n", ""),  # a machine without compilers
    (r"/tmp/eb-\w+/easybuild-\w+\.log", "/tmp/eb-k8v/easybuild-v22.log"),
    (r"/tmp/eb-\w+", "/tmp/eb-k8v"),
    (r"-\d{8}\.\d{6}\.log", "-20261120.213954.log"),
    (r"/tmp/eb-k8v/tmp\w+/", "/tmp/eb-k8v/tmp/"),
    (r"\b[0-9a-f]{64}\b", "<sha256 of the image>"),
    (r"\b(reflink|copy_file_range|copy loop|loop)(?=, sha256)", "copy_file_range"),
    (r"python3\.\d+", "python3.11"),
)
TIMES = ((r"\[[\d.]+ s\]", "[time]"), (r"\b(took|total:|in) (< )?[\d.]+ (secs?|mins?|s)\b", r"\1 <time>"))


def tidy(log: str, folder: str) -> str:
    """Return the log of one run the form that all runs share; times stay. What dev/stack made is told only once."""
    for pattern, form in ((re.escape(folder), FOLDER), *CHANGING):
        log = re.sub(pattern, form, log)
    return sort_ranks([line for line in log.strip().splitlines() if not line.startswith("stack: ")])


def sort_ranks(lines: list[str]) -> str:
    """Put lines of ranks in order: each rank prints when it is ready."""
    ranks = iter(sorted(line for line in lines if line.startswith("rank ")))
    return "\n".join(next(ranks) if line.startswith("rank ") else line for line in lines) + "\n"


def without_times(log: str) -> str:
    """Leave out how long things took."""
    for pattern, form in TIMES:
        log = re.sub(pattern, form, log)
    return log
