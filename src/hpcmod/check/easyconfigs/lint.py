"""Find the mistakes in recipes of containers, ours and other people's: each with its line, the rule, and a cure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from hpcmod.check.easyconfigs.context import LintContext, fault
from hpcmod.check.easyconfigs.files import SUFFIXES
from hpcmod.check.easyconfigs.rules import RULES
from hpcmod.check.easyconfigs.shpc import SHPC_RULES
from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.model.container_yaml import parse_container_yaml
from hpcmod.model.finding import FAIL, Finding


def lint_easyconfig(text: str, path: Path, *, exists: Callable[[str], bool] = os.path.lexists) -> tuple[Finding, ...]:
    """Find the mistakes in a recipe, in the order of its lines. It is read, never run.

    Parameters
    ----------
    path
        The file; its name is compared with its content, and determines the kind of recipe.
    exists
        Returns whether a path exists on this machine.

    Raises
    ------
    BadInputError
        If the file is of no kind that is known.
    LackingError
        If this Python lacks what reads it.
    """
    if not path.name.endswith(SUFFIXES):
        raise BadInputError(
            f"{path}: not a batch script, recipe or site profile",
            "Expected *.sh, *.sbatch, *.slurm, *.eb, *.toml or container.yaml.",
        )
    found = _lint_shpc(text, path) if path.name.endswith(".yaml") else _lint_easyconfig(text, path, exists)
    return tuple(sorted(set(found), key=lambda one: (one.line, one.rule, one.found)))


def _lint_easyconfig(text: str, path: Path, exists: Callable[[str], bool]) -> Iterator[Finding]:
    try:
        look = LintContext.at(text, path, exists)
    except HpcmodError as err:
        yield fault(
            1, "does-not-load", FAIL, err.message.removeprefix(f"{path}: "), "EasyBuild will refuse it as well."
        )
        return
    for rule in RULES:
        yield from rule(look)


def _lint_shpc(text: str, path: Path) -> Iterator[Finding]:
    try:
        recipe = parse_container_yaml(text, str(path))
    except BadInputError as err:
        yield fault(1, "does-not-load", FAIL, err.message.removeprefix(f"{path}: "), err.cure)
        return
    for rule in SHPC_RULES:
        yield from rule(recipe, text, path)
