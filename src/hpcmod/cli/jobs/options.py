"""Options of `hpcmod job` for Slurm, variables and further steps, and the values made from them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

import click

from hpcmod.errors import BadInputError
from hpcmod.model.jobs.request import DIRECTIVES
from hpcmod.model.jobs.requeue import MOST_REQUEUES, parse_requeue

NETWORK_VALUES = ("single_node_vni", "job_vni", "disable_rdzv_get", "none")
"""Values that completion offers for --network; Slurm accepts more, separated by commas."""


def slurm_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the less common options of `hpcmod job`."""
    for option in (
        click.option("--max-requeues", default=MOST_REQUEUES, metavar="N", help="Maximum requeues (default: 10)."),
        click.option("--requeue-on", default="", metavar="SIG@SECONDS", help="Signal for a checkpoint, then requeue."),
        click.option("--then", multiple=True, metavar="COMMAND", help="Program to run afterwards on the same ranks."),
        click.option("--before", multiple=True, metavar="COMMAND", help="Program to run once, before the ranks start."),
        click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable for the ranks."),
        click.option("--network", default="", metavar="VALUE", help="sbatch --network (default: the profile's).",
                     shell_complete=lambda *_: list(NETWORK_VALUES)),
        click.option("--sockets-per-node", type=click.IntRange(min=1), help="Minimum number of sockets per node."),
        click.option("--cpus", type=click.IntRange(min=1), help="CPUs per rank (default: its share of the node)."),
        click.option("--array", default="", metavar="LIST", help="Job array: 0-15, 1,3,5 or 0-15%4."),
        click.option("--dependency", default="", metavar="LIST", help="Jobs to wait for: afterok:4711."),
        click.option("--chdir", default="", metavar="DIRECTORY", help="Working directory (default: this one)."),
        click.option("--error", default="", metavar="FILE", help="File for stderr (default: that of --output)."),
    ):  # fmt: skip
        command = option(command)
    return command


def directives(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the sbatch options that were given, as pairs of long name and value."""
    pairs = [(name, given.get(name.replace("-", "_"))) for name in DIRECTIVES]
    return tuple((name, str(value)) for name, value in pairs if value)


def more_of_request(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JobRequest that the options above set.

    Raises
    ------
    BadInputError
        If a variable has no value, or a further program cannot be split into words.
    """
    return {
        "requeue": parse_requeue(given["requeue_on"], given["max_requeues"]) if given["requeue_on"] else None,
        "before": tuple(_split(words, "--before") for words in given["before"]),
        "then": tuple(_split(words, "--then") for words in given["then"]),
        "variables": tuple(_parse_variable(text) for text in given["variables"]),
        "mpi": given["mpi"],
        "image_mpi": given["image_mpi"],
        "cpus": given["cpus"] or -1,
    }


def _split(words: str, option: str) -> tuple[str, ...]:
    try:
        found = tuple(shlex.split(words))
    except ValueError as err:
        raise BadInputError(f"{option} {words!r}: {err}", "Close the quotes.") from err
    if not found:
        raise BadInputError(f"{option} has no program", f"Write {option} 'prepare.py --out data'.")
    return found


def _parse_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInputError(f"--env {text} has no value", f"Write --env {text or 'NAME'}=VALUE.")
    return name, value
