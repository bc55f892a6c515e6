"""The command `hpcmod site netstack`: capture, show and check copies of the host's network libraries."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import click

from hpcmod.compat.install_netstack import plan_capture, read_capture, write_capture
from hpcmod.compat.netstack import check_capture
from hpcmod.compat.values.netstack import DEFAULT_LIBRARIES, Capture
from hpcmod.core.cli.findings import Findings, show_findings
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.groups import CommandGroup
from hpcmod.core.cli.output import json_option, print_data, print_json, print_message, print_text
from hpcmod.core.errors import BadInputError, CheckFailedError, NotFoundError
from hpcmod.core.fs.tree import write_file
from hpcmod.core.progress import ProgressLine
from hpcmod.core.text.toml import render_toml
from hpcmod.core.values.json_form import SPLICED
from hpcmod.machine import find_machine, load_site, own_profile
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Netstack
from hpcmod.modules import explain_binds

_directory = click.argument("directory", required=False, type=click.Path(path_type=Path))


@dataclass(frozen=True)
class CapturedStack:
    """Libraries of a captured directory."""

    directory: Path | None
    """Null: nothing was written."""
    capture: Capture = field(metadata=SPLICED)
    glibc_needed: str
    """The oldest glibc release that works, e.g. 2.34; empty if not known."""


@dataclass(frozen=True)
class CaptureFlags:
    """Arguments and options of `hpcmod site netstack capture`."""

    libraries: tuple[str, ...]
    output: Path | None
    leave_out: tuple[str, ...]
    allow_missing: bool
    use: bool
    dry_run: bool
    as_json: bool


@click.group(cls=CommandGroup)
def netstack() -> None:
    """Copy the host's network libraries for use in containers.

    \b
    Examples:
      hpcmod site netstack capture --output /appl/netstack /opt/cray/libfabric/1.22.0/lib64/libfabric.so.1
      hpcmod site netstack show
      hpcmod site netstack check     # after a system update
    """


@netstack.command()
@click.argument("libraries", nargs=-1, metavar="[LIBRARY...]")
@click.option(
    "-o",
    "--output",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Directory to write to (default: that of the profile).",
)
@click.option(
    "--leave-out",
    multiple=True,
    metavar="NAME",
    help="Library to take from the container instead; `*` matches any text.",
)
@click.option("--allow-missing", is_flag=True, help="Capture even if a needed library is not found.")
@click.option("--use", is_flag=True, help="Use it from now on: write it into your own profile.")
@click.option("--dry-run", is_flag=True, help="Print what would be copied; write nothing.")
@json_option(CapturedStack)
@with_flags(CaptureFlags)
def capture(flags: CaptureFlags) -> None:
    """Copy libraries and their dependencies, except glibc's, into a new directory, and print its path.

    LIBRARY is a path, a pattern (the newest match is taken), or a name that this machine's loader finds. The default is
    the list in the site profile, else libfabric.so.1. Libraries opened at run time, such as plugins, must be listed.

    \b
    Examples:
      hpcmod site netstack capture --dry-run
      hpcmod site netstack capture --output /appl/netstack '/opt/cray/libfabric/*/lib64/libfabric.so.1' libcxi.so.1
      module load cray-mpich-abi; hpcmod site netstack capture --use --output /proj/netstack libmpi.so.12 libfabric.so.1
    """
    site = find_machine(None, os.environ).site
    known = site.network.netstack
    asked = flags.libraries or known.libraries or DEFAULT_LIBRARIES
    plan = plan_capture(asked, os.environ, leave_out=tuple(dict.fromkeys((*known.leave_out, *flags.leave_out))))
    for warning in plan.warnings:
        print_message(f"warning: {warning}")
    if plan.missing and not flags.allow_missing:
        raise _incomplete(plan)
    if flags.dry_run:
        _print_capture(plan, None, as_json=flags.as_json)
        return
    with ProgressLine("netstack") as progress:
        out = flags.output or _default_output(known)
        directory, made = write_capture(plan, out, tell=print_message, progress=progress)
    if not made:
        print_message(f"nothing to do: {directory} has the same libraries")
    if flags.use:
        _use(out.absolute(), site)
    if flags.as_json:
        _print_capture(read_capture(directory), directory, as_json=True)
    else:
        print_data(str(directory))


def _use(directory: Path, site: Site) -> None:
    """Write the user's own profile: that of this machine, with the captures in a directory before its own libraries."""
    path = own_profile(os.environ)
    places = list(dict.fromkeys([f"{directory}/*", *(bind.source for bind in site.network.netstack.directory)]))
    values = {"name": site.name, "extends": site.profile, "netstack": {"directory": places}}
    if site.profile == str(path):  # unless it only names another profile
        lines = render_toml({"netstack": values["netstack"]})
        raise BadInputError(f"{path} exists: it is a profile of your own", f"Add these lines to it:\n{lines}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, render_toml(values))
    print_message(f"used from now on: {path}")


def _incomplete(plan: Capture) -> CheckFailedError:
    wanted = "\n".join(f"  {name}, needed by {by}" for name, by in plan.missing)
    return CheckFailedError(
        f"libraries that this machine's loader cannot find:\n{wanted}",
        "Load the module that puts them on LD_LIBRARY_PATH, or continue with --allow-missing.",
    )


def _default_output(known: Netstack) -> Path:
    """Return where the profile looks for captured directories: the parent of its first pattern."""
    for bind in known.directory:
        parent = os.path.dirname(bind.source)  # noqa: PTH120 - it is a pattern
        if bind.pattern and not any(sign in parent for sign in "*?{"):
            return Path(parent)
    raise NotFoundError(
        "no directory for the libraries: the site profile lists none that ends in /*",
        'Give one with --output, and set it in the profile: [netstack] directory = ["/that/directory/*"].',
    )


@netstack.command()
@_directory
@json_option(CapturedStack)
def show(directory: Path | None, as_json: bool) -> None:
    """Show the contents and origin of a captured directory (default: the one that modules bind here).

    \b
    Examples:
      hpcmod site netstack show
      hpcmod site netstack show --json /appl/netstack/20261121-031500-libfabric.so.1.25.0 | jq -r .glibc_needed
    """
    found = directory or _bound_directory()
    _print_capture(read_capture(found), found, as_json=as_json)


@netstack.command()
@_directory
@json_option(Findings)
def check(directory: Path | None, as_json: bool) -> None:
    """Check that the copies are complete and up to date, for example after a system update.

    Exit code 1: something is stale or damaged.

    \b
    Examples:
      hpcmod site netstack check
      hpcmod site netstack check /appl/netstack/20261121-031500-libfabric.so.1.25.0
    """
    show_findings(check_capture(directory or _bound_directory()), as_json=as_json)


def _bound_directory() -> Path:
    """Return the captured directory that a module loaded on this node binds."""
    candidates = load_site(None, os.environ).network.netstack.directory
    kept = [finding for finding in explain_binds((candidates,), {}) if finding.kept]
    if not kept:
        raise NotFoundError(
            "none of the directories in [netstack] of the site profile exists here"
            if candidates
            else "the site profile has no directory in [netstack]",
            "Give a captured directory, or make one: hpcmod site netstack capture --output DIRECTORY",
        )
    return Path(kept[0].bind.source)


def _print_capture(capture: Capture, directory: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json(CapturedStack(directory, capture, capture.glibc_needed))
        return
    if directory:
        print_text(f"directory: {directory}")
    print_text(f"host: {', '.join(value for _, value in capture.host if value)}")
    left_out = ", ".join(sorted(set(capture.left_out))) or "no library"
    print_text(f"needed from the container: glibc {capture.glibc_needed or 'unknown'}; {left_out}")
    for library in capture.libraries:
        print_text(f"{library.file}\t{library.source}\t{' '.join(library.defines)}")
    for name, by in capture.missing:
        print_text(f"{name}\tnot found, needed by {by}\t")
