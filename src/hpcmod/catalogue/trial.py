"""Run what was declared as checks of a container, with its module loaded: on this machine, and as a job step."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.errors import CheckFailedError, LackingError
from hpcmod.install.module_tool import with_one_tool
from hpcmod.model.catalogue.record import Check
from hpcmod.process import Completed, run, which
from hpcmod.render.checkscript import NO_MODULE_TOOL, render_check

EASYBUILD_CHECK = "eb: the module loads, the image starts, sanity_check_commands of the easyconfig"
"""The name of the check that `eb` itself makes of every installation."""

_NOT_FOUND = 127  # what bash ends with where there is no such command
_LINE = re.compile(r"^bash: line \d+: ")
_MISSING = re.compile(r"^([^\s:]+): command not found$")
_SAID = 10  # lines of what a failed check said


@dataclass(frozen=True)
class CheckRun:
    """Where and how checks are run."""

    module: str
    modulepath: Path
    sha256: str
    """Of the image: the results are worth nothing for another."""
    environ: Mapping[str, str]
    slurm: tuple[str, ...] = ()
    """Options of srun: account, partition, nodes."""
    use_slurm: bool = True
    tell: Callable[[str], None] = lambda _: None
    """False: nothing is run as a job step, even where there is Slurm."""
    timeout: float = 1800.0
    """Seconds for one check, waiting for nodes among them."""


def run_checks(trial: CheckRun, commands: Sequence[str], job_commands: Sequence[str] = ()) -> Iterator[Check]:
    """Run every command, and say how it went; the first that fails ends it.

    Parameters
    ----------
    commands
        Run on this machine, and as a job step where there is Slurm.
    job_commands
        Run as a job step only.

    Raises
    ------
    CheckFailedError
        With what the command said.
    LackingError
        If something is to be run as a job step, and there is no Slurm.
    """
    for command in commands:
        yield _run(trial, command)
    srun = find_srun(trial.environ, use_slurm=trial.use_slurm, needed=bool(job_commands))
    if commands and not srun and trial.use_slurm and which("srun", trial.environ):
        trial.tell("Slurm does not answer, so the checks ran on this machine only and not in a job step")
    for command in (*commands, *job_commands) if srun else ():
        yield _run(trial, command, srun)


def repeat_checks(trial: CheckRun, checks: Iterable[Check]) -> Iterator[Check]:
    """Run the checks of a record again; what `eb` had checked is a plain load now.

    Raises
    ------
    CheckFailedError
        With what the command said.
    """
    for check in checks:
        srun = find_srun(trial.environ, use_slurm=trial.use_slurm, needed=False) if check.under else ""
        if not check.under or srun:
            yield _run(trial, check.name, srun)


def find_srun(environ: Mapping[str, str], *, use_slurm: bool, needed: bool) -> str:
    """Find what starts a job step; empty where there is no Slurm, or it is not to be used.

    Raises
    ------
    LackingError
        If it is needed, and there is none.
    """
    srun = which("srun", environ) if use_slurm else None
    if srun and run(["sinfo", "--noheader"], env=environ, timeout=60).status == 0:
        return srun
    if needed:
        raise LackingError(
            f"some checks are for a job step only, and {'no Slurm answers here' if use_slurm else 'none is to be run'}",
            "Publish from a login node of the machine." if use_slurm else "Leave out --no-slurm.",
        )
    return ""


def _run(trial: CheckRun, command: str, srun: str = "") -> Check:
    shown = ":" if command == EASYBUILD_CHECK else command
    script = render_check(shown, module=trial.module, modulepath=str(trial.modulepath))
    slurm = [srun, "--quiet", "--nodes=1", "--ntasks=1", *trial.slurm] if srun else []
    done = run([*slurm, "bash", "-c", script], env=with_one_tool(trial.environ), stdin="", timeout=trial.timeout)
    where = "slurm" if srun else ""
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
    options = "Where Slurm wants an account: --slurm '-A ACCOUNT'. Not to use it: --no-slurm." if where else ""
    if missing:
        return CheckFailedError(
            f"a check of {trial.module} failed{' under Slurm' * bool(where)}: {command}\n  there is no command "
            f"{missing[1]} once the module is loaded",
            f"To put a command of the image on PATH: --command {missing[1]}; or run it in the image: "
            f"--check 'singularity exec $SIF {command}'",
        )
    return CheckFailedError(
        f"a check of {trial.module} failed {'under Slurm ' * bool(where)}(exit code {done.status}): {command}{said}",
        f"Correct the image or the check. {options}".rstrip(),
    )


def now_text() -> str:
    """Return the time as records have it: ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
