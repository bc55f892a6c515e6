"""Rules for batch scripts: signals before the time limit, data on the nodes, and where files are left."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.look import TOOLS, Fault, Rule, ScriptContext

_SIGNALS = {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP", "18": "CONT"}


def _signal_name(text: str) -> str:
    name = text.upper().removeprefix("SIG")
    return _SIGNALS.get(name, name)


def _traps(look: ScriptContext) -> list[tuple[Call, set[str]]]:
    """Return the traps of the batch shell, with the signals that they handle."""
    found = []
    for call in look.calls:
        if call.name == "trap" and not call.inner and len(call.program) > 2 and call.program[1].plain not in ("-", ""):
            found.append((call, {_signal_name(word.plain) for word in call.program[2:]}))
    return found


def _signals(look: ScriptContext) -> Iterator[Fault]:
    option = look.option("signal")
    if not option or look.sources:
        return
    before = option.value.partition("@")[2]
    if before and not before.isdecimal():
        yield option.line, f"--signal={option.value}: the time before the end is in seconds", "Write USR1@300."
    elif before and int(before) < 30 and not _traps(look):
        what = f"the signal comes {before} seconds before the end, which is too late to write a checkpoint"
        yield option.line, what, f"Write {option.value.partition('@')[0]}@300: the number is in seconds."
    to_shell = re.match(r"[RB]*B[RB]*:", option.value) is not None
    signal = _signal_name(option.value.rpartition(":")[2].partition("@")[0])
    traps = _traps(look)
    caught = [call for call, signals in traps if signal in signals]
    others = [call for call, signals in traps if signals - {"EXIT", "ERR", "DEBUG", "0"} and signal not in signals]
    if to_shell and others and not caught:
        what = f"Slurm sends {signal} (line {option.line}), and this trap is for another signal: bash ends at {signal}"
        yield others[0].line, what, f"Use {signal} in the trap."
    elif to_shell and not caught and not _replaced(look):
        what = f"{signal} is sent only to the batch shell, which has no trap for it, so the job ends at once"
        cure = f"Add trap '...' {signal}, and run srun ... & and wait; or remove B: so that the program gets it."
        yield option.line, what, cure
    elif not to_shell and caught:
        what = f"without B: {signal} is sent only to the steps, and the trap on line {caught[0].line} never runs"
        yield option.line, what, f"Write --signal=B:{option.value}."


def _replaced(look: ScriptContext) -> bool:
    """Return whether the last command replaces the shell, and so gets its signals."""
    return any(call.words and call.words[0].plain == "exec" for call in look.calls)


def _no_wait(look: ScriptContext) -> Iterator[Fault]:
    behind = [call for call in look.calls if call.background and (call.srun is not None or call.container)]
    if not behind or any(call.name == "wait" for call in look.calls):
        return
    last = behind[-1]
    if any(call.line > last.line and not call.background and _takes_time(call) for call in look.calls):
        return
    what = "nothing waits for this background command, which ends with the script"
    yield last.line, what, "End the script with wait."


def _takes_time(call: Call) -> bool:
    return "loop" in call.places or (
        bool(call.program) and (call.srun is not None or call.name not in TOOLS | {"echo"})
    )


_NO_SIF = re.compile(r"(?:docker|oras|library|shub|https?)://|(?:docker-archive|oci-archive|docker-daemon):")
"""Images that the runtime converts before it starts them."""


def _registry_image(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        image = call.container.image if call.container else None
        found = image and _NO_SIF.match(look.expand(image.plain))
        if image and found:
            what = "every task fetches and converts the image when the job starts"
            cure = f"Run hpcmod fetch {look.expand(image.plain)} once, before sbatch, and use the SIF here."
            yield image.line, what, cure


def _install_in_job(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        words = [word.plain for word in call.program]
        installs = re.match(r"(?:\S*python[\d.]* -m )?pip[\d.]* install\b", " ".join(words))
        elsewhere = call.srun is None and {"--target", "--prefix", "--user", "-t"} & set(words)
        if call.container and installs and not elsewhere:
            many = (look.ranks(call) or 1) if call.srun is not None else 1
            what = "the image is read-only: pip install fails in it, or writes to the home directory"
            if many > 1:
                what = f"{many} tasks run pip install at the same time, in a read-only image or one home directory"
            yield call.program[0].line, what, "Install packages once, before the job: `hpcmod add`, or your own venv."


RULES: dict[str, Rule] = {
    "signal": _signals,
    "no-wait": _no_wait,
    "registry-image": _registry_image,
    "install-in-job": _install_in_job,
}
