"""Rules for batch scripts: steps that wait for each other, steps within steps, and programs that nodes do not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.check.jobs.reading.look import TOOLS, Fault, Rule, ScriptContext
from hpcmod.check.jobs.rules.starts import OF_ONE

_RANDOM_RUN = re.compile(r"--rdzv[-_]id[= ]\\?\$\{?RANDOM\b")
_STARTERS = {"mpirun", "mpiexec", "flux", "ray", "pdsh", "ssh", "deepspeed", "submitit", "snakemake", "parallel"}


def _step_in_step(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        if call.inner and call.srun is not None and call.words and _starts_a_step(call.words[0].plain):
            if any(option.name == "overlap" for option in call.srun):
                continue
            outer = [one for one in look.calls if not one.inner and call.line in one.multiline and one.srun is not None]
            if outer:
                what = "each task of a step starts another step, which waits for the cores that the first one holds"
                yield call.line, what, "Keep one srun: the first, or the one inside."


def _starts_a_step(word: str) -> bool:
    return word.rpartition("/")[2] == "srun"


def _random_run(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        literal = call.literal or "\\$RANDOM" in " ".join(word.text for word in call.words)
        if _RANDOM_RUN.search(call.arguments()) and literal:
            what = "every node generates a different --rdzv_id, and they do not connect"
            yield call.line, what, "Write --rdzv_id=$SLURM_JOB_ID."


def _nothing_starts_ranks(look: ScriptContext) -> Iterator[Fault]:
    tasks, last = look.ranks() or 1, None
    for call in look.calls:
        if call.srun is not None or call.container or call.name in _STARTERS or look.sources:
            return
        if re.fullmatch(r"python[\d.]*", call.name) and any(word.plain.endswith(".py") for word in call.program):
            last = last or call
        elif call.name and call.name not in TOOLS | {"export", "export=", "conda"}:
            return  # may start steps itself
    if last and tasks > 1 and look.asks_for_gpus() and not OF_ONE.search(last.arguments()):
        what = f"runs once, on the first node, and nothing starts the {tasks} tasks of the job"
        yield last.line, what, "Put srun before it."


RULES: dict[str, Rule] = {
    "step-in-step": _step_in_step,
    "random-run": _random_run,
    "nothing-starts-ranks": _nothing_starts_ranks,
}
