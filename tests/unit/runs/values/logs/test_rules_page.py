"""The page of rules about logs is generated from the rules: `./dev/test --golden` writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hpcmod.runs.values.logs.rules import REASONS, RULES
from tests.logs import excerpts

PAGE = Path(__file__).resolve().parents[5] / "docs" / "reference" / "log-rules.md"

HEAD = """\
# Rules about logs of communication libraries

`hpcmod check --network` and `hpcmod why` read the logs of NCCL, RCCL and their network plugins, libfabric, UCX, MPICH,
Open MPI, PyTorch and gloo by these rules. Problems are known endings, as in `hpcmod why`: they come with hpcmod
(`src/hpcmod/runs/endings`), and [a site can add its own](../how-to/known-endings.md). A line that no rule knows is
counted; if it is a warning, `check` shows it without judging it. See
[Check the nodes and the network before a job uses them](../how-to/check-nodes.md).

The rules are tested on {excerpts} excerpts of logs from {threads} public pages (`tests/logs`). A third of them was
collected after the rules had been written: of these {held_out}, the rules read 41 as a person does at the first run, 6
not at all, and none wrongly. 29 of them are from pages that a search had shown earlier; of the other 18, they read 13.
The rules were extended for the 6 afterwards.

"""


def test_the_page_is_that_of_the_rules(golden: Callable[[Path, str], None]) -> None:
    corpus = excerpts()
    text = HEAD.format(
        excerpts=len(corpus),
        threads=len({excerpt.source for excerpt in corpus}),
        held_out=sum(excerpt.is_held_out for excerpt in corpus),
    )
    text += "## Reasons\n\nHarmless, but they explain why a slower network is used.\n\n"
    text += "| reason | meaning | what to do | source |\n|---|---|---|---|\n"
    for reason in REASONS:
        shown = reason.source.removeprefix("https://").removeprefix("github.com/")
        text += f"| `{reason.name}` | {reason.meaning} | {reason.cure} | [{shown}]({reason.source}) |\n"
    fields = sorted({field for rule in RULES for field in (*rule.facts, *rule.many, *rule.counted)})
    text += f"\n## Facts\n\nThe fields of `facts`: {', '.join(f'`{field}`' for field in fields)}.\n"
    golden(PAGE, text)
