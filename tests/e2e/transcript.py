"""The log of dev/demo as shown in docs/tutorial/demo.md, with everything that varies between runs normalized."""

from __future__ import annotations

import re

FOLDER = "/var/tmp/hpcmod-dev-alice"
FENCE = re.compile(r"(?<=```console\n).*?(?=```\n)", re.DOTALL)

CHANGING = (
    (r"\nWARNING: 'g(cc|\+\+)' command not found in .*\n\n", ""),  # on machines without compilers
    (r"/tmp/eb-\w+/easybuild-\w+\.log", "/tmp/eb-k8v/easybuild-v22.log"),
    (r"/tmp/eb-\w+", "/tmp/eb-k8v"),
    (r"-\d{8}\.\d{6}\.log", "-20261120.213954.log"),
    (r"/tmp/eb-k8v/tmp\w+/", "/tmp/eb-k8v/tmp/"),
    (r"\b[0-9a-f]{64}\b", "<sha256 of the image>"),
    (r"\b(reflink|copy_file_range|copy loop|loop)(?=, sha256)", "copy_file_range"),
    (r"python3\.\d+", "python3.11"),
)
TIMES = (
    (r"\[[\d.]+ s\]", "[time]"),
    (r"\b(took|total:|in) (< )?[\d.]+ (secs?|mins?|s)\b( \d+ secs?\b)?", r"\1 <time>"),
)


def tidy(log: str, folder: str) -> str:
    """Normalize what varies between runs, except times; drop the `stack: ` lines, which only the first run prints."""
    for pattern, form in ((re.escape(folder), FOLDER), *CHANGING):
        log = re.sub(pattern, form, log)
    return sort_ranks([line for line in log.strip().splitlines() if not line.startswith("stack: ")])


def sort_ranks(lines: list[str]) -> str:
    """Sort the lines of ranks, as each rank prints when it is ready."""
    ranks = iter(sorted(line for line in lines if line.startswith("rank ")))
    return "\n".join(next(ranks) if line.startswith("rank ") else line for line in lines) + "\n"


def without_times(log: str) -> str:
    """Replace durations with placeholders."""
    for pattern, form in TIMES:
        log = re.sub(pattern, form, log)
    return log
