"""The command `hpcmod`: its verbs, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import sys
from typing import Any

import click
from click.shell_completion import get_completion_class

import hpcmod
from hpcmod.cli import bundle, cache, environment, image, job, launch, site, user
from hpcmod.errors import HpcmodError, explain_os_error
from hpcmod.render.quote import terminal


class _Group(click.Group):
    """Prints an HpcmodError as one message with its cure, and exits with its code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `hpcmod ... | head`: click ends in silence, as others do
            raise
        except (HpcmodError, OSError) as fault:
            err = explain_os_error(fault) if isinstance(fault, OSError) else fault
            click.echo(f"hpcmod: {terminal(err.message)}", err=True)
            if err.cure:
                click.echo(terminal(err.cure), err=True)
            sys.exit(err.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(hpcmod.__version__, prog_name="hpcmod")
def main() -> None:
    """Container images as modules that a supercomputer's users can load.

    \b
    Examples:
      hpcmod install PyTorch-2.7.1-rocm-6.2.4-singularity.eb
      hpcmod fetch docker://ghcr.io/org/image@sha256:...
      hpcmod inspect image.sif
      eval "$(hpcmod env)"     # make a site's own eb find our easyblocks and easyconfigs

    Exit codes: 0 ok, 1 a check failed, 2 bad input, 3 not found, 4 verification failed, 5 no space, 6 busy,
    7 the environment lacks something, 8 a remote server failed, 9 not trusted,
    10 signed by an unknown key.
    """


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example:
      hpcmod completion bash > ~/.local/share/bash-completion/completions/hpcmod
    """
    kind = get_completion_class(shell)
    if kind:
        click.echo(kind(main, {}, "hpcmod", "_HPCMOD_COMPLETE").source())


for _command in (
    user.doctor,
    environment.env,
    user.inspect,
    user.install,
    site.site,
    site.binds,
    job.job,
    launch.launch,
):
    main.add_command(_command)
for _command in (image.fetch, image.convert, image.verify, cache.cache, bundle.bundle):
    main.add_command(_command)
