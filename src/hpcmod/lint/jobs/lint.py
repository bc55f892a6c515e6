"""Find common mistakes in batch scripts, each with its line, rule, effect and cure."""

from __future__ import annotations

from hpcmod.core.errors import LackingError
from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.lint.jobs.reading.calls import read_calls
from hpcmod.lint.jobs.reading.context import Rule, ScriptContext
from hpcmod.lint.jobs.reading.script import read_batch_script
from hpcmod.lint.jobs.rules import container, options, ranks, shell
from hpcmod.machine.values.site import SLURM, Site

RULES: dict[str, Rule] = {
    name.removeprefix("rule_").replace("_", "-"): rule
    for part in (options, shell, ranks, container)
    for name, rule in vars(part).items()
    if name.startswith("rule_")
}  # every rule, by name: `no-wait` is `rule_no_wait`

WASTEFUL = {
    "array-log", "billed-gpus", "cpus-per-gpu", "idle-tasks", "install-in-job", "mail-address", "missing-option",
    "no-cpus", "not-exported", "no-ranks", "refused-launcher", "registry-image", "repeated-option", "shared-gpus",
    "too-many-threads", "unknown-setting",
}  # fmt: skip
"""Rules whose finding is a warning, said once in a script: likely slow or wasteful, or right if set elsewhere."""


def lint_job(text: str, site: Site) -> tuple[Finding, ...]:
    """Return the mistakes in a batch script for a machine, in line order: it is read, never run.

    Raises LackingError if the machine has another scheduler than Slurm: the rules are those of sbatch and srun.
    """
    if site.job.scheduler != SLURM:
        other = f"{site.name} has another scheduler: {site.job.scheduler}"
        problem = f"hpcmod finds mistakes only in batch scripts of Slurm, and {other}"
        raise LackingError(problem, "For the script of another machine, name that machine: --site NAME.")
    script = read_batch_script(text)
    job = ScriptContext(script, read_calls(script), site, text)
    findings: list[Finding] = []
    for name, rule in RULES.items():
        faults = sorted({(at, " ".join(problem.split()), " ".join(cure.split())) for at, problem, cure in rule(job)})
        level = WARN if name in WASTEFUL else FAIL
        shown = faults[:1] if level == WARN else faults
        findings += [Finding(level, name, problem, cure, line=line) for line, problem, cure in shown]
    return tuple(sorted(findings, key=lambda finding: (finding.line, finding.rule, finding.found)))
