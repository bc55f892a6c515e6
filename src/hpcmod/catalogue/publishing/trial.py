"""Run the declared checks of a container with its module loaded: on this machine, and as a job step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.text.checkscript import NO_MODULE_TOOL, render_check
from hpcmod.catalogue.values.record import Check
from hpcmod.core.clock import now_text
from hpcmod.core.errors import CheckFailedError, LackingError
from hpcmod.core.process import Completed, run
from hpcmod.core.which import which
from hpcmod.machine import with_one_tool
from hpcmod.machine.values.site import SLURM
from hpcmod.modules import find_check_step

EASYBUILD_CHECK = "eb: the module loads, the image starts, sanity_check_commands of the easyconfig"
"""The name of the check that `eb` itself does for every installation."""

_NOT_FOUND = 127  # exit status of bash if a command is not found
_LINE = re.compile(r"^bash: line \d+: ")
_MISSING = re.compile(r"^([^\s:]+): command not found$")
_SAID = 10  # lines of the output of a failed check
_TIMEOUT = 1800.0  # seconds for one check, including the wait for nodes


@dataclass(frozen=True)
class CheckRun:
    """Where and how checks are run."""

    module: str
    modulepath: Path
    sha256: str
    """Checksum of the image: the results are valid only for it."""
    environ: Mapping[str, str]
    without: str = ""
    """Directory of modules in which another copy of the module may be."""
    step_options: tuple[str, ...] = ()
    """Options of srun for job steps: account, partition, nodes."""
    use_steps: bool = True
    """If False, nothing is run as a job step, even where Slurm is available."""
    tell: Callable[[str], None] = lambda _: None
    """Called with a line for the user."""


def run_checks(
    trial: CheckRun, commands: Sequence[str], job_commands: Sequence[str] = (), *, step: tuple[str, ...] = ()
) -> Iterator[Check]:
    """Run the commands in order and yield their results; stop at the first failure.

    `commands`: Run on this machine.
    `job_commands`: Run as job steps.
    `step`: The command that starts a job step, from `find_step`.

    Raises CheckFailedError with the command's output; LackingError if there is no module tool.
    """
    for command in commands:
        yield _run(trial, command)
    if commands and not step and trial.use_steps and which("srun", trial.environ):
        trial.tell("Slurm does not respond, so the checks ran on this machine only and not in a job step")
    for command in job_commands:
        yield _run(trial, command, step)


def repeat_checks(trial: CheckRun, checks: Iterable[Check]) -> Iterator[Check]:
    """Run the checks of a record again, until one fails; `eb`'s own check becomes a plain load."""
    for check in checks:
        step = find_step(trial.environ, use_steps=trial.use_steps, needed=False) if check.under else ()
        if not check.under or step:
            yield _run(trial, check.name, step)


def find_step(environ: Mapping[str, str], *, use_steps: bool, needed: bool) -> tuple[str, ...]:
    """Return the command that starts a job step; empty if Slurm is not available or not to be used.

    Raise LackingError if it is needed and not available.
    """
    step = find_check_step(environ) if use_steps else ()
    if needed and not step:
        reason = "Slurm does not respond here" if use_steps else "--no-slurm is set"
        raise LackingError(
            f"some checks need a job step, but {reason}",
            "Publish from a login node of the machine." if use_steps else "Omit --no-slurm.",
        )
    return step


def _run(trial: CheckRun, command: str, step: tuple[str, ...] = ()) -> Check:
    shown = ":" if command == EASYBUILD_CHECK else command
    script = render_check(shown, module=trial.module, modulepath=str(trial.modulepath), without=trial.without)
    options = trial.step_options if step else ()
    done = run([*step, *options, "bash", "-c", script], env=with_one_tool(trial.environ), stdin="", timeout=_TIMEOUT)
    where = SLURM if step else ""
    if done.status == _NOT_FOUND and done.stderr.strip() == NO_MODULE_TOOL:
        raise LackingError(
            f"{NO_MODULE_TOOL}, so {trial.module} cannot be loaded",
            "Start from a login shell, in which the site sets them up: bash -lc 'hpcmod ...'",
        )
    if done.status:
        raise _failed(command, trial, where, done)
    return Check(command, True, now_text(), trial.sha256, where)


def _failed(command: str, trial: CheckRun, where: str, done: Completed) -> CheckFailedError:
    lines = [_LINE.sub("", line) for line in (done.stdout + done.stderr).strip().splitlines()]
    said = "".join(f"\n  {line}" for line in lines[-_SAID:])
    missing = _MISSING.search(lines[-1]) if done.status == _NOT_FOUND and lines else None
    under = "under Slurm " if where else ""
    options = "If Slurm requires an account: --slurm '-A ACCOUNT'. To skip Slurm: --no-slurm." if where else ""
    if missing:
        return CheckFailedError(
            f"a check of {trial.module} failed {under}".rstrip() + f": {command}\n  command not found: "
            f"{missing[1]} (with the module loaded)",
            f"To put a command of the image on PATH: --command {missing[1]}; or run it in the image: "
            f"--check 'singularity exec $SIF {command}'",
        )
    return CheckFailedError(
        f"a check of {trial.module} failed {under}(exit code {done.status}): {command}{said}",
        f"Fix the image or the check. {options}".rstrip(),
    )
