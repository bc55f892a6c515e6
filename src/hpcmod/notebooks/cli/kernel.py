"""The command `hpcmod kernel`: install, list and remove Jupyter kernels that run in containers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import click

from hpcmod.catalogue import complete_container, find_ready, look_around
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import json_option, print_data, print_json, print_table, print_text, tell
from hpcmod.core.errors import NotFoundError
from hpcmod.core.values.json_form import SPLICED
from hpcmod.modules.python_module import check_python_module
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
def kernel_verb(
    container: str,
    name: str,
    display_name: str,
    host_commands: bool,
    remove: bool,
    listing: bool,
    dry_run: bool,
    site: str | None,
    as_json: bool,
) -> None:
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
    if remove and listing:
        raise click.UsageError("give --remove or --list, not both")
    directory = kernels_directory(os.environ)
    if listing:
        _list(directory, find_kernels(directory), as_json=as_json)
    elif remove:
        _remove(directory, container, name, dry_run=dry_run, as_json=as_json)
    elif container:
        here = look_around(site)
        found = find_ready(here, container)
        kernel = make_kernel(
            str(found.program),
            found.module,
            str(found.root),
            name=name,
            display_name=display_name,
            host_commands=host_commands,
        )
        check_python_module(found, "ipykernel", "ipykernel")
        _install(directory, kernel, dry_run=dry_run, as_json=as_json)
    else:
        raise click.UsageError("give a container, or --list")


def _install(directory: Path, kernel: KernelSpec, *, dry_run: bool, as_json: bool) -> None:
    path = directory / kernel.name if dry_run else install_kernel(directory, kernel)
    if as_json:
        print_json(KernelList(dry_run, (_find(directory, kernel),)))
    elif dry_run:
        print_data(render_kernel(kernel), nl=False)
        tell(f"would be written to {path}")
    else:
        print_text(path)
        tell(f"installed the kernel {kernel.name}, shown as {json.dumps(kernel.display_name, ensure_ascii=False)}")


def _remove(directory: Path, container: str, name: str, *, dry_run: bool, as_json: bool) -> None:
    if not (container or name):
        raise click.UsageError("give a container or --name")
    found = [one for one in find_kernels(directory) if _matches(one, container, name)]
    if not found:
        raise NotFoundError(
            f"hpcmod installed no kernel {f'named {name}' if name else f'of {container}'} in {directory}",
            "List them: hpcmod kernel --list",
        )
    for kernel in found:
        if not dry_run:
            remove_kernel(directory, kernel)
    if as_json:
        print_json(KernelList(dry_run, tuple(_find(directory, kernel) for kernel in found)))
        return
    for kernel in found:
        print_text(directory / kernel.name)
        tell(f"{'would remove' if dry_run else 'removed'} the kernel {kernel.name}")


def _matches(kernel: KernelSpec, container: str, name: str) -> bool:
    of_container = not container or kernel.module == container or kernel.module.startswith(f"{container}/")
    return of_container and name in ("", kernel.name)


def _list(directory: Path, kernels: Iterable[KernelSpec], *, as_json: bool) -> None:
    listed = tuple(_find(directory, kernel) for kernel in kernels)
    if as_json:
        print_json(KernelList(dry_run=False, kernels=listed))
        return
    rows = [
        (
            known.kernel.name,
            known.kernel.module,
            known.kernel.display_name,
            "ready" if known.ready else "container removed",
        )
        for known in listed
    ]
    print_table(("kernel", "module", "shown as", "state"), rows)
    if not rows:
        tell(f"hpcmod installed no kernels in {directory}")


def _find(directory: Path, kernel: KernelSpec) -> InstalledKernel:
    program = kernel.argv[0] if kernel.argv else ""
    return InstalledKernel(kernel, directory / kernel.name, ready=os.access(program, os.X_OK))
