"""The page of rules about logs is generated from the rules: `./dev/test --golden` writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hpcmod.runs.values.logs.reading import RULES
from hpcmod.runs.values.logs.rule import PROBLEM, REASON, Rule
from tests.logs import excerpts

PAGE = Path(__file__).resolve().parents[5] / "docs" / "reference" / "log-rules.md"

HEAD = """\
# Rules about logs of communication libraries

`hpcmod check --network` and `hpcmod why` read the logs of NCCL, RCCL and their network plugins, libfabric, UCX, MPICH,
Open MPI, PyTorch and gloo by these rules. A line that no rule knows is counted; if it is a warning, `check` shows it
without judging it. See
[Check the nodes and the network before a job uses them](../how-to/check-nodes.md).

The rules are tested on {excerpts} excerpts of logs from {threads} public pages (`tests/logs`). A third of them was
collected after the rules had been written: of these {held_out}, the rules read 41 as a person does at the first run, 6
not at all, and none wrongly. 29 of them are from pages that a search had shown earlier; of the other 18, they read 13.
The rules were extended for the 6 afterwards.

"""


def _table(kind: str) -> str:
    rows = [
        f"| `{rule.name}` | {rule.library} | {rule.meaning} | {rule.cure} | {_source(rule)} |"
        for rule in RULES
        if rule.kind == kind
    ]
    return "\n".join(["| rule | library | meaning | what to do | source |", "|---|---|---|---|---|", *rows]) + "\n"


def _source(rule: Rule) -> str:
    return f"[{rule.source.removeprefix('https://').removeprefix('github.com/')}]({rule.source})"


def _facts() -> str:
    fields: dict[str, list[str]] = {}
    for rule in RULES:
        for field in dict.fromkeys(name for name, _ in (*rule.facts, *rule.many, *rule.counted)):
            fields.setdefault(field, []).append(f"`{rule.name}`")
    rows = [f"| `{field}` | {', '.join(names)} |" for field, names in sorted(fields.items())]
    return "\n".join(["| field in `facts` | rules |", "|---|---|", *rows]) + "\n"


def test_the_page_is_that_of_the_rules(golden: Callable[[Path, str], None]) -> None:
    corpus = excerpts()
    head = HEAD.format(
        excerpts=len(corpus),
        threads=len({excerpt.source for excerpt in corpus}),
        held_out=sum(excerpt.is_held_out for excerpt in corpus),
    )
    problems = "## Problems\n\nCommunication failed, or may fail.\n\n" + _table(PROBLEM)
    reasons = "\n## Reasons\n\nHarmless, but they explain why a slower network is used.\n\n" + _table(REASON)
    golden(PAGE, head + problems + reasons + "\n## Facts\n\n" + _facts())
