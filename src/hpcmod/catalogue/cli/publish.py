"""The command `hpcmod publish`: install, test and publish an image or easyconfig as a module for all users."""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack
from dataclasses import dataclass, field

import click

from hpcmod.catalogue.cli.environment import environment_of_eb
from hpcmod.catalogue.cli.installed import on_a_terminal
from hpcmod.catalogue.cli.options import ChangeFlags, changing_options, make_actor, open_catalogues
from hpcmod.catalogue.publishing.candidate import Candidate, Request, choose_candidate
from hpcmod.catalogue.publishing.publish import Published, publish
from hpcmod.catalogue.publishing.publish_plan import PublishContext, PublishPlan, plan_publish
from hpcmod.core.cli.arguments import complete_file, site_option
from hpcmod.core.cli.flags import nested, with_flags
from hpcmod.core.cli.output import print_data, print_json, print_text, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.checksums import parse_sha256
from hpcmod.core.progress import ProgressLine
from hpcmod.core.text.quote import terminal
from hpcmod.core.values.json_form import SPLICED
from hpcmod.images import FetchPlan, make_options
from hpcmod.machine import find_machine


@dataclass(frozen=True)
class PublishFlags(ChangeFlags):
    """Arguments and options of `hpcmod publish`."""

    request: Request = field(metadata=nested(Request))
    slurm: str
    no_slurm: bool
    allow_http: bool
    site: str | None
    yes: bool


@dataclass(frozen=True)
class PlannedPublish:
    """With --dry-run: what publishing would do."""

    module: str
    image: FetchPlan
    aliases: tuple[str, ...]
    published: bool
    """Whether it is published already."""
    plan: PublishPlan = field(metadata=SPLICED)


@click.command("publish")
@click.argument("what", metavar="IMAGE|EASYCONFIG", shell_complete=complete_file)
@click.option("--name", default="", help="Name of the module (default: as the image or the easyconfig says).")
@click.option("--version", default="", help="Version with suffix (default: as the image or the easyconfig says).")
@click.option(
    "--alias", "aliases", multiple=True, metavar="NAME", help="Alias that points to it, e.g. stable or latest."
)
@click.option(
    "--check", "checks", multiple=True, metavar="COMMAND", help="Command that must succeed with the module loaded."
)
@click.option(
    "--job-check", "job_checks", multiple=True, metavar="COMMAND", help="Command that must succeed as a job step."
)
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="NAME[=PATH]",
    help="Command of the image to put on PATH, instead of the well-known ones.",
)
@click.option("--slurm", default="", metavar="OPTIONS", help="srun options for checks: account, partition.")
@click.option("--no-slurm", is_flag=True, help="Run no checks as job steps.")
@click.option("--readers", default="", metavar="GROUP", help="Only group that may read the image.")
@click.option("--licence", default="", metavar="FILE", help="Text that each user must accept once before loading.")
@click.option("--misfit", is_flag=True, help="Publish even if it does not fit this node.")
@click.option(
    "--checksum",
    metavar="SHA256",
    callback=lambda _, __, text: parse_sha256(text) if text else None,
    help="Expected sha256 of the SIF.",
)
@click.option("--description", default="", help="Description in one line.")
@click.option("--homepage", default="", help="URL of the software.")
@click.option("--allow-http", is_flag=True, help="Allow plain http if a server does not offer https.")
@site_option
@click.option("-y", "--yes", is_flag=True, help="Accept name and version of the image without a question.")
@changing_options(Published, PlannedPublish)
@with_flags(PublishFlags)
def publish_verb(flags: PublishFlags) -> None:
    """Install, test and publish a container for all users.

    The image is inspected without starting it. `eb` installs it, hidden from users; then every check runs with the
    module loaded, here and under Slurm. If anything fails, the catalogue does not change. If interrupted, run it again.

    \b
    Examples:
      hpcmod publish torch.sif --name PyTorch --version 2.7.1-singularity --check "python -c 'import torch'"
      hpcmod publish docker://ghcr.io/org/torch@sha256:... --name PyTorch --version 2.7.1 --alias latest
      hpcmod publish PyTorch-2.7.1-rocm-6.2.4-singularity.eb --slurm "-A project_465000001 -p dev-g -t 10"
    """
    catalogue = open_catalogues(flags.directory)[0]
    found = find_machine(None, os.environ, flag=flags.site)
    with ExitStack() as shown:
        context = PublishContext(
            machine=found,
            options=make_options(found.site, os.environ, tell=tell, allow_http=flags.allow_http),
            eb_environment=environment_of_eb(),
            actor=make_actor(flags.reason),
            step_options=tuple(shlex.split(flags.slurm)),
            use_steps=not flags.no_slurm,
            progress=lambda label: shown.enter_context(ProgressLine(label)),  # closed with the command
        )
        request = flags.request
        candidate = choose_candidate(request, central=found.site.images.central)
        if candidate.guesses and not flags.yes:
            _confirm_names(candidate, flags)
        if flags.dry_run:
            _show_publish_plan(*plan_publish(catalogue, candidate, request, context), as_json=flags.as_json)
            return
        shown.enter_context(terminate_cleanly())
        done = publish(catalogue, candidate, request, context)
    _show(done, as_json=flags.as_json)


def _confirm_names(candidate: Candidate, flags: PublishFlags) -> None:
    """Ask the user to confirm a name or version that the image's reference or labels give."""
    message = f"{flags.request.what} would be published as {candidate.module}: {', and '.join(candidate.guesses)}"
    if flags.dry_run:
        tell(message)
    elif not flags.as_json and on_a_terminal():
        click.confirm(f"{terminal(message)}. Publish it?", abort=True, err=True)
    else:
        raise BadInputError(message, "Give --name and --version, or accept these with --yes.")


def _show(done: Published, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    if done.change:
        tell(f"change {done.change}; to revert it: hpcmod catalogue undo {done.change}")
    if done.record.readers:
        tell(f"readers: {done.record.readers}")
    if done.record.licence:
        tell(f"licence, which each user must accept once: sha256 {done.record.licence}")
    print_data(done.record.module)


def _show_publish_plan(plan: PublishPlan, fetch: FetchPlan, *, as_json: bool) -> None:
    if as_json:
        aliases, is_published = plan.request.aliases, plan.known is not None
        print_json(PlannedPublish(plan.candidate.module, fetch, aliases, is_published, plan))
        return
    print_text("\n".join(_render_publish_plan(plan, fetch)))


def _render_publish_plan(plan: PublishPlan, fetch: FetchPlan) -> list[str]:
    record = plan.record
    lines = [f"module: {plan.candidate.module}{' (already published)' * (plan.known is not None)}"]
    lines += [f"repair: {damage}" for damage in plan.damage]
    if plan.command:
        lines += [f"image: {fetch.pinned or fetch.reference} -> {fetch.path}", f"policy: {fetch.policy}"]
    if plan.command and fetch.bytes_to_fetch is not None:
        lines.append(f"to fetch: {fetch.bytes_to_fetch} bytes")
    if record:
        content = record.content
        lines += [f"sha256: {record.sha256}", f"size: {record.size} bytes", f"architecture: {content.architecture}"]
        lines.append(f"python: {content.python or 'none found'}, {len(content.packages)} packages")
        lines.append(f"fits this machine: {record.publication.compat}")
    if plan.command:
        lines.append(f"command: {shlex.join(plan.command)}")
    lines += [f"check: {command}" for command in plan.checks]
    lines += [f"check under Slurm: {command}" for command in plan.job_checks]
    lines += [f"alias: {alias}" for alias in plan.request.aliases]
    lines += [f"write: {name}" for name in plan.files] or ["nothing would change"]
    return [*lines, "easyconfig:", *(f"  {line}" for line in plan.easyconfig.splitlines())]
