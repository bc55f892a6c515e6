"""Rules for batch scripts: signals before the time limit, and the end of the script."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.context import TOOLS, Fault, ScriptContext
from hpcmod.lint.jobs.rules.starts import MPIRUN

_SIGNALS = {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP", "18": "CONT"}


def _signal_name(text: str) -> str:
    name = text.upper().removeprefix("SIG")
    return _SIGNALS.get(name, name)


def _traps(job: ScriptContext) -> list[tuple[Call, set[str]]]:
    """Return the traps of the batch shell, with the signals that they handle."""
    return [
        (call, {_signal_name(word.plain) for word in call.program[2:]})
        for call in job.own
        if call.name == "trap" and len(call.program) > 2 and call.program[1].plain not in ("-", "")
    ]


def rule_signal(job: ScriptContext) -> Iterator[Fault]:
    option = job.option("signal")
    if not option or job.sources or not job.calls:
        return
    traps = _traps(job)
    target, _, before = option.value.partition("@")
    if before and not before.isdecimal():
        yield option.line, f"--signal={option.value}: the time before the end is in seconds", "Write USR1@300."
    to_shell = re.match(r"[RB]*B[RB]*:", target) is not None
    signal = _signal_name(target.rpartition(":")[2])
    caught = [call for call, signals in traps if signal in signals]
    others = [call for call, signals in traps if signals - {"EXIT", "ERR", "DEBUG", "0"} and signal not in signals]
    replaced = any(call.words[0].plain == "exec" for call in job.calls)  # by a program, which gets the signal
    if to_shell and others and not caught:
        given = f"Slurm sends {signal} (line {option.line})"
        problem = f"{given}, and this trap is for another signal: bash ends at {signal}"
        yield others[0].line, problem, f"Use {signal} in the trap."
    elif to_shell and not caught and not replaced:
        problem = f"{signal} is sent only to the batch shell, which has no trap for it, so the job ends at once"
        cure = f"Add trap '...' {signal}, and run srun ... & and wait; or remove B: so that the program gets it."
        yield option.line, problem, cure
    elif not to_shell and caught:
        problem = f"without B: {signal} is sent only to the steps, and the trap on line {caught[0].line} never runs"
        yield option.line, problem, f"Write --signal=B:{option.value}."


def rule_no_wait(job: ScriptContext) -> Iterator[Fault]:
    starts = [call for call in job.calls if call.srun is not None or call.container or call.name in MPIRUN]
    own = (call for call in job.own if job.script.options and not call.places & {"branch", "function"})
    behind = [call for call in (*starts, *own) if call.background and (call in starts or call.name not in TOOLS | {""})]
    if not behind or any(call.name in ("wait", "sleep", "tail") for call in job.calls):
        return
    after = (call for call in job.calls[job.calls.index(behind[-1]) :] if not call.background)
    if all(call.name in TOOLS | {""} and "loop" not in call.places and call.srun is None for call in after):
        problem = "nothing waits for this background command, which ends with the script"
        yield behind[-1].line, problem, "End the script with wait."
