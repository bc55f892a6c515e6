"""The command `hpcmod site new`: write a profile of this machine from what it says about itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import click

from hpcmod.core.cli.output import print_data, tell
from hpcmod.core.errors import BadInputError
from hpcmod.core.resources import schema_file
from hpcmod.core.text.quote import sh_word
from hpcmod.core.text.toml import render_commented
from hpcmod.doctor.values.draft import make_draft
from hpcmod.machine.values.profile import parse_profile


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
def site_new(output: Path | None, name: str, partitions: Sequence[str], account: str, force: bool) -> None:
    """Write a profile of this machine from what its scheduler and its nodes say.

    Each value has a comment that says where it was read. What the machine does not say is left out, with a comment.
    On a login node, add --partition for each kind of compute node: only these know their GPUs and networks.

    \b
    Examples:
      hpcmod site new
      hpcmod site new --partition gpu --account project_1 -o ours.toml
      srun -p gpu hpcmod site new -o ours.toml
    """
    from hpcmod.doctor.survey import find_evidence, name_machine

    if output and not force and os.path.lexists(output):
        raise BadInputError(f"{output}: already exists", "Choose another name, or replace it with --force.")
    evidence = find_evidence(os.environ, partitions, {"account": account, "time": "5"})
    date = f"{datetime.now(timezone.utc):%B %Y}"
    draft = make_draft(evidence, name=name or name_machine(evidence.cluster), date=date)
    schema = schema_file("site-profile")
    text = f"#:schema {schema.as_uri()}\n" if schema.exists() else ""
    text += render_commented(draft.notes, draft.values, draft.unknown)
    parse_profile(text, "the new profile")
    if output:
        from hpcmod.core.fs.tree import write_file

        write_file(output, text)
    print_data(output or text, nl=output is not None)
    unknown = {key for key, _ in draft.unknown} - {key for key, *_ in draft.values}
    tell(f"{len(draft.values)} values found, {len(unknown)} keys not known: see the comments")
    if output:
        tell(f"next: hpcmod site check --site {sh_word(str(output) if '/' in str(output) else f'./{output}')}")
