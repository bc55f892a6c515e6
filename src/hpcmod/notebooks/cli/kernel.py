"""The command `hpcmod kernel`: install, list and remove Jupyter kernels that run in containers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import click

from hpcmod.catalogue import complete_container, find_ready, look_around
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_data, print_json, print_table, print_text, tell
from hpcmod.core.errors import NotFoundError
from hpcmod.core.values.json_form import SPLICED
from hpcmod.modules import check_python_module
from hpcmod.notebooks.kernels import find_kernels, install_kernel, kernels_directory, remove_kernel
from hpcmod.notebooks.values.kernel import KernelSpec, make_kernel, render_kernel


@dataclass(frozen=True)
class InstalledKernel:
    """A Jupyter kernel, and where it is."""

    kernel: KernelSpec = field(metadata=SPLICED)
    directory: Path
    ready: bool
    """Whether its container is still installed."""


@dataclass(frozen=True)
class KernelList:
    """Jupyter kernels that were installed, removed or listed."""

    dry_run: bool
    kernels: tuple[InstalledKernel, ...]


@dataclass(frozen=True)
class KernelFlags:
    """Arguments and options of `hpcmod kernel`."""

    container: str
    name: str
    display_name: str
    host_commands: bool
    remove: bool
    listing: bool
    dry_run: bool
    site: str | None
    as_json: bool


@click.command("kernel")
@click.argument("container", metavar="[NAME[/VERSION]]", required=False, default="", shell_complete=complete_container)
@click.option("--name", default="", help="Name of the kernel (default: the module's, in lower case).")
@click.option("--display-name", default="", metavar="TEXT", help="Name that notebooks show (default: the module's).")
@click.option("--host-commands", is_flag=True, help="Let notebooks run the commands of the host that the site allows.")
@click.option("--remove", is_flag=True, help="Remove the kernels of a container, or with --name this one.")
@click.option("--list", "listing", is_flag=True, help="List the kernels that hpcmod installed.")
@click.option("--dry-run", is_flag=True, help="Print what would be written or removed; change nothing.")
@site_option
@json_option(KernelList)
@with_flags(KernelFlags)
def kernel_verb(flags: KernelFlags) -> None:
    """Install a Jupyter kernel that runs in a container.

    Every Jupyter that you run finds it, including Open OnDemand's. Its notebooks run in the container, with your own
    packages and the GPUs. The kernel needs neither a loaded module nor hpcmod.

    \b
    Examples:
      hpcmod kernel PyTorch
      hpcmod kernel PyTorch/2.7.1 --name torch --display-name "PyTorch 2.7 (my packages)"
      hpcmod kernel PyTorch --host-commands
      hpcmod kernel --list
      hpcmod kernel PyTorch --remove
    """
    if flags.remove and flags.listing:
        raise click.UsageError("give --remove or --list, not both")
    directory = kernels_directory(os.environ)
    if flags.listing:
        _list(directory, as_json=flags.as_json)
    elif flags.remove:
        _remove(directory, flags)
    elif flags.container:
        _install(directory, flags)
    else:
        raise click.UsageError("give a container, or --list")


def _install(directory: Path, flags: KernelFlags) -> None:
    installed = find_ready(look_around(flags.site), flags.container)
    kernel = make_kernel(
        str(installed.program),
        installed.module,
        str(installed.root),
        name=flags.name,
        display_name=flags.display_name,
        host_commands=flags.host_commands,
    )
    check_python_module(installed, "ipykernel", "ipykernel")
    path = directory / kernel.name if flags.dry_run else install_kernel(directory, kernel)
    if flags.as_json:
        print_json(KernelList(flags.dry_run, (_describe(directory, kernel),)))
    elif flags.dry_run:
        print_data(render_kernel(kernel), nl=False)
        tell(f"would be written to {path}")
    else:
        print_text(path)
        tell(f"installed the kernel {kernel.name}, shown as {json.dumps(kernel.display_name, ensure_ascii=False)}")


def _remove(directory: Path, flags: KernelFlags) -> None:
    container, name = flags.container, flags.name
    if not (container or name):
        raise click.UsageError("give a container or --name")
    kernels = [
        kernel
        for kernel in find_kernels(directory)
        if f"{kernel.module}/".startswith(f"{container}/" if container else "") and name in ("", kernel.name)
    ]
    if not kernels:
        raise NotFoundError(
            f"hpcmod installed no kernel {f'named {name}' if name else f'of {container}'} in {directory}",
            "List them: hpcmod kernel --list",
        )
    for kernel in () if flags.dry_run else kernels:
        remove_kernel(directory, kernel)
    if flags.as_json:
        print_json(KernelList(flags.dry_run, tuple(_describe(directory, kernel) for kernel in kernels)))
        return
    for kernel in kernels:
        print_text(directory / kernel.name)
        tell(f"{'would remove' if flags.dry_run else 'removed'} the kernel {kernel.name}")


def _list(directory: Path, *, as_json: bool) -> None:
    listed = tuple(_describe(directory, kernel) for kernel in find_kernels(directory))
    if as_json:
        print_json(KernelList(dry_run=False, kernels=listed))
        return
    states = [(known.kernel, "ready" if known.ready else "container removed") for known in listed]
    rows = [(kernel.name, kernel.module, kernel.display_name, state) for kernel, state in states]
    print_table(("kernel", "module", "shown as", "state"), rows)
    if not rows:
        tell(f"hpcmod installed no kernels in {directory}")


def _describe(directory: Path, kernel: KernelSpec) -> InstalledKernel:
    program = kernel.argv[0] if kernel.argv else ""
    return InstalledKernel(kernel, directory / kernel.name, ready=os.access(program, os.X_OK))
