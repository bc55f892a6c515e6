"""Results of planted faults: a file with one JSON object per line, and tables of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.planted.judge import FOUND, Verdict
from tests.planted.plants import BENCH, CHECK, HEALTHY, KINDS, VERIFY_NET, WHY, Plant

RESULTS = Path(__file__).with_name("results.jsonl")


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Return the results in a file by name of the plant; empty if the file does not exist."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {one["plant"]: one for one in map(json.loads, lines)}


def add_result(path: Path, plant: Plant, verdict: Verdict) -> None:
    """Append a result."""
    one = {"plant": plant.name, "outcome": verdict.outcome, "named": verdict.named, "alarms": list(verdict.alarms)}
    with path.open("a") as file:
        file.write(f"{json.dumps(one)}\n")


def make_table(plants: Iterable[Plant], results: dict[str, dict[str, Any]]) -> str:
    """Return two Markdown tables: faults by kind, and healthy runs by command."""
    done = [(plant, results[plant.name]) for plant in plants if plant.name in results]
    lines = ["| fault | planted | found and named | missed | false alarms | by |", "|---|--:|--:|--:|--:|---|"]
    for kind, words in KINDS.items():
        mine = [(plant, one) for plant, one in done if plant.kind == kind]
        found = sum(one["outcome"] == FOUND for _, one in mine)
        by = [name for name in (CHECK, VERIFY_NET, BENCH, WHY) if any(plant.command == name for plant, _ in mine)]
        counts = " ".join(f"`{name}` {sum(plant.command == name for plant, _ in mine)}," for name in by).rstrip(",")
        lines.append(f"| {words} | {len(mine)} | {found} | {len(mine) - found} | {_alarms(mine)} | {counts} |")
    lines += ["", "| healthy runs | runs | without a false alarm | false alarms |", "|---|--:|--:|--:|"]
    for command in (CHECK, VERIFY_NET, BENCH, WHY):
        mine = [(plant, one) for plant, one in done if (plant.kind, plant.command) == (HEALTHY, command)]
        quiet = sum(not one["alarms"] and one["outcome"] == FOUND for _, one in mine)
        lines.append(f"| `hpcmod {command}` | {len(mine)} | {quiet} | {_alarms(mine)} |")
    return "\n".join(lines) + "\n"


PAGE = Path(__file__).with_name("page.md")


def make_page(plants: Iterable[Plant], results: dict[str, dict[str, Any]]) -> str:
    """Return the page docs/explanation/planted-faults.md."""
    return PAGE.read_text().replace("{table}", make_table(plants, results))


def _alarms(done: Iterable[tuple[Plant, dict[str, Any]]]) -> int:
    return sum(bool(one["alarms"]) for _, one in done)
