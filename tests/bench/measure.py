"""Compare alternatives: run them in alternation for several rounds, so that a busy machine slows all alike; take
medians.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One line of a table: what was measured, the value, what it is compared with, the ratio, and the aim, if any."""

    what: str
    value: str
    beside: str
    ratio: str
    aim: str = ""


def alternate(
    rounds: int, work: Mapping[str, Callable[[], object]], *, before: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Run each function once per round; return their median seconds. `before` runs before each, untimed."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, do in work.items():
            before()
            began = time.perf_counter()
            do()
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in taken.items()}


def must(argv: Sequence[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program; if it fails, stop the benchmark with the program's output."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, argv))} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def traced_bytes(trace: Path, name: str) -> tuple[int, int]:
    """Sum the bytes read from and written to files whose path contains `name`, from `strace -f -y -e trace=CALLS`."""
    read = written = 0
    for kind, arguments, count in _calls(trace.read_text(errors="replace").splitlines()):
        files = [name in path for path in re.findall(r"\d+<([^>]*)>", arguments)]
        source, target = _ends(kind, files)
        read, written = read + count * source, written + count * target
    return read, written


def _calls(lines: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Yield name, arguments and result of each successful call; in a threaded program a call may be split over two
    lines.
    """
    begun: dict[str, str] = {}
    for line in lines:
        process, _, text = line.partition(" ")
        text = text.lstrip()
        if text.endswith("<unfinished ...>"):
            begun[process] = text.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        call = re.match(r"(\w+)\((.*)\) += +(\d+)$", begun.pop(process, "") + resumed[1] if resumed else text)
        if call:
            yield call[1], call[2], int(call[3])


def _ends(kind: str, files: Sequence[bool]) -> tuple[bool, bool]:
    """Return whether a call read from the file, and whether it wrote to it."""
    if kind in ("copy_file_range", "sendfile"):
        first, second = (*files, False, False)[:2]
        return (first, second) if kind == "copy_file_range" else (second, first)
    ours = files[:1] == [True]
    return ours and "read" in kind, ours and "write" in kind


def table(title: str, rows: Sequence[Row]) -> str:
    """Render rows as a Markdown table."""
    lines = [f"### {title}", "", "| what | median | compared with | ratio | aim |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {r.what} | {r.value} | {r.beside} | {r.ratio} | {r.aim} |" for r in rows)]) + "\n"
