"""Find the mistakes that people make in batch scripts: each with its line, the rule, what happens, and a cure."""

from __future__ import annotations

from dataclasses import dataclass

from hpcmod.check.jobs import (
    bind_rules,
    command_rules,
    container_rules,
    end_rules,
    option_rules,
    rank_rules,
    setting_rules,
    shell_rules,
    slurm_rules,
    start_rules,
)
from hpcmod.check.jobs.look import Look, Rule
from hpcmod.model.site import Site

RULES: dict[str, Rule] = {
    **slurm_rules.RULES,
    **option_rules.RULES,
    **shell_rules.RULES,
    **command_rules.RULES,
    **rank_rules.RULES,
    **start_rules.RULES,
    **setting_rules.RULES,
    **container_rules.RULES,
    **bind_rules.RULES,
    **end_rules.RULES,
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
    look = Look.at(text, site)
    found = {JobFault(line, name, what, cure) for name, rule in RULES.items() for line, what, cure in rule(look)}
    return tuple(sorted(found, key=lambda fault: (fault.line, fault.rule, fault.what)))
