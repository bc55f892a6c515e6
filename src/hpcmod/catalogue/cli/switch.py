"""The command `hpcmod use`: choose which of several loaded containers `$SIF` and `singularity` belong to."""

from __future__ import annotations

import os

import click

from hpcmod.core.cli.output import print_text
from hpcmod.core.errors import NotFoundError
from hpcmod.core.text.quote import sh_word


@click.command("use")
@click.argument("container", metavar="NAME[/VERSION]")
def use_verb(container: str) -> None:
    """Print the command that gives $SIF and singularity to a loaded container.

    Of several loaded containers, they belong to the one that was loaded last. A program cannot change the variables of
    your shell, so let the shell run what this prints.

    \b
    Example:
      eval "$(hpcmod use PyTorch)"
    """
    loaded = [module for module in os.environ.get("LOADEDMODULES", "").split(":") if module]
    matching = [module for module in loaded if module == container or module.startswith(f"{container}/")]
    if not matching:
        raise NotFoundError(
            f"no module {container} is loaded; loaded are: {', '.join(loaded) or 'none'}",
            f"Load it: module load {container}",
        )
    module = sh_word(matching[-1])
    print_text(f"module unload {module} && module load {module}")
