"""Find the mistakes that people make in batch scripts: each with its line, the rule, what happens, and a cure."""

from __future__ import annotations

from dataclasses import dataclass

from hpcmod.check.jobs.reading.look import Rule, ScriptContext
from hpcmod.check.jobs.rules import (
    binds,
    commands,
    container,
    ends,
    options,
    ranks,
    settings,
    shell,
    slurm,
    starts,
    steps,
)
from hpcmod.model.site import Site

RULES: dict[str, Rule] = {
    name: rule
    for part in (slurm, options, shell, commands, ranks, starts, steps, settings, container, binds, ends)
    for name, rule in part.RULES.items()
}
"""Every rule, by name."""


@dataclass(frozen=True)
class JobFault:
    """One mistake in a batch script."""

    line: int
    """Counted from 1."""
    rule: str
    """One of RULES."""
    what: str
    cure: str


def lint_job(text: str, site: Site) -> tuple[JobFault, ...]:
    """Find the mistakes in a batch script, in the order of its lines.

    Parameters
    ----------
    text
        The whole script. It is read, never run: what depends on the values of variables is not found.
    site
        The machine it is for: some of the rules are its own.
    """
    look = ScriptContext.at(text, site)
    found = {JobFault(line, name, what, cure) for name, rule in RULES.items() for line, what, cure in rule(look)}
    return tuple(sorted(found, key=lambda fault: (fault.line, fault.rule, fault.what)))
