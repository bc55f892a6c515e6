"""The command `hpcmod site new`: write a profile of this machine from what it says about itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from hpcmod.core.cli.output import json_option, print_data, print_json, tell
from hpcmod.core.errors import BadInputError
from hpcmod.core.text.quote import sh_word
from hpcmod.core.text.toml import render_commented
from hpcmod.doctor.values.draft import Draft, Unknown, make_draft
from hpcmod.machine.values.profile import parse_profile


@dataclass(frozen=True)
class SourcedValue:
    """A value of a profile."""

    value: Any
    source: str
    """What said so."""


@dataclass(frozen=True)
class NewProfile:
    """A new site profile, and where its values are from."""

    file: Path | None
    """Where it belongs; null: nowhere, it was only printed."""
    written: bool
    name: str
    notes: tuple[str, ...]
    """Lines for the comment at its top."""
    values: Mapping[str, SourcedValue]
    """By key of the profile."""
    unknown: tuple[Unknown, ...]
    """Keys that could not be found out."""


@click.command("new")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="File to write (default: stdout)."
)
@click.option("--name", default="", help="Name of the profile (default: the cluster's, else the host's).")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME",
    help="Also ask one node of this partition, with a job step; repeatable.",
)
@click.option("--account", default="", help="Account of these steps (default: yours).")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--dry-run", is_flag=True, help="Print the profile; write nothing.")
@click.option("--facts", is_flag=True, hidden=True, help="Print what this node says about itself.")
@json_option(NewProfile)
def site_new(
    output: Path | None,
    name: str,
    partitions: Sequence[str],
    account: str,
    force: bool,
    dry_run: bool,
    facts: bool,
    as_json: bool,
) -> None:
    """Write a profile of this machine from what its scheduler and its nodes say.

    Each value has a comment that says where it was read. What the machine does not say is left out, with a comment.
    On a login node, add --partition for each kind of compute node: only these know their GPUs and networks.

    \b
    Examples:
      hpcmod site new
      hpcmod site new --partition gpu --account project_1 -o ours.toml
      srun -p gpu hpcmod site new -o ours.toml
    """
    from hpcmod.doctor.survey import AskedNodes, find_evidence, name_machine, survey_here

    if facts:
        print_data(json.dumps(survey_here(os.environ)))
        return
    writes = output is not None and not dry_run
    if output is not None and writes and not force and (output.exists() or output.is_symlink()):
        raise BadInputError(f"{output}: already exists", "Choose another name, or replace it with --force.")
    asked = AskedNodes(partitions, {"account": account, "time": "5"})
    evidence = find_evidence(asked, os.environ)
    chosen = name or name_machine(evidence.cluster)
    draft = make_draft(evidence, name=chosen, date=f"{datetime.now(timezone.utc):%B %Y}")
    text = _render(draft)
    parse_profile(text, "the new profile")
    if output is not None and writes:
        from hpcmod.core.fs.tree import write_file

        write_file(output, text)
    if as_json:
        values = {known.key: SourcedValue(known.value, known.source) for known in draft.values}
        print_json(NewProfile(output, writes, chosen, draft.notes, values, draft.unknown))
        return
    print_data(output if writes else text, nl=writes)
    tell(f"{len(draft.values)} values found, {len(draft.unknown)} keys not known: see the comments")
    if output is not None and writes:
        place = str(output) if "/" in str(output) else f"./{output}"
        tell(f"next: hpcmod site check --site {sh_word(place)}")


def _render(draft: Draft) -> str:
    values = [(one.key, one.value, one.source) for one in draft.values]
    return render_commented(draft.notes, values, [(one.key, one.why) for one in draft.unknown])
