"""The commands that run containers without loading a module: exec and shell."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import click

from hpcmod.catalogue.cli.containers import complete_image, find_ready, look_around, names_image
from hpcmod.core.cli.arguments import Option, site_option, with_options
from hpcmod.core.cli.output import print_data, tell
from hpcmod.core.process import become
from hpcmod.core.text.quote import sh_word
from hpcmod.modules import find_packages, says_another_site
from hpcmod.modules.values.runtime_options import RUNTIME_FLAGS, RUNTIME_SHORT

_AS_TYPED = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Unknown options go to the container runtime, and everything after the container's name to the command."""


def _of_running(metavar: str) -> Option:
    words = click.argument(
        "words",
        nargs=-1,
        required=True,
        type=click.UNPROCESSED,
        metavar=f"[RUNTIME OPTIONS] NAME[/VERSION]|IMAGE {metavar}",
        shell_complete=complete_image,
    )
    dry_run = click.option("--dry-run", is_flag=True, help="Print the command line; run nothing.")
    return with_options(words, dry_run, site_option)


@click.command("exec", context_settings=_AS_TYPED)
@_of_running("COMMAND [ARGS]...")
def exec_verb(words: tuple[str, ...], site: str | None, dry_run: bool) -> None:
    """Run a command in a container.

    The command gets the same environment as with the module loaded; you do not need to load it. An image, such as
    ./torch.sif or docker://HOST/NAME:TAG, need not be installed.

    Options in front of the name go to singularity or apptainer. The command gets the terminal and all signals, and
    hpcmod ends with its exit status.

    \b
    Examples:
      hpcmod exec PyTorch python train.py --epochs 3
      hpcmod exec --nv -B /data:/data PyTorch/2.7.1 nvidia-smi
    """
    _run("exec", words, site, dry_run=dry_run)


@click.command("shell", context_settings=_AS_TYPED)
@_of_running("[ARGS]...")
def shell_verb(words: tuple[str, ...], site: str | None, dry_run: bool) -> None:
    """Start a shell in a container.

    It gets the same environment as with the module loaded; you do not need to load it.

    \b
    Examples:
      hpcmod shell PyTorch
      hpcmod shell --nv PyTorch -c 'python --version'
    """
    _run("shell", words, site, dry_run=dry_run)


def _run(verb: str, words: Sequence[str], site: str | None, *, dry_run: bool) -> None:
    options, container, command = split_words(words)
    if verb == "exec" and not command:
        raise click.UsageError("no command: hpcmod exec [RUNTIME OPTIONS] NAME[/VERSION]|IMAGE COMMAND [ARGS]...")
    here = look_around(site)
    if names_image(container):
        from hpcmod.catalogue.cli.image import program_of  # imports what plans an installation

        program = program_of(here, container)
    else:
        copy = find_ready(here, container)
        copy.check_program()
        program = copy.program
        if says_another_site(copy.record, here.site, os.environ):
            made_for = copy.record.site
            tell(f"{copy.module} has the settings of {made_for}, for which it was installed, not of {here.site.name}")
        if not dry_run and re.match(r"(\S*/)?(pip[\d.]*|python[\d.]* -m pip) install ", " ".join(command)):
            layer = find_packages(copy.root, copy.record.own_packages, os.environ)
            if not here.is_own(copy) or layer.is_file():
                new = sh_word(command[-1]) if not command[-1].startswith("-") else "PACKAGE"
                tell(f"pip does not change this container; to add to it: hpcmod add {copy.name} {new}")
    argv = [str(program), verb, *options, "--", *command]
    if dry_run:
        print_data(" ".join(map(sh_word, argv)))
        return
    become(argv)


def split_words(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Split words into runtime options, the name of the container, which must be there, and the command to run."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 1 + _takes_value(words[at])
    rest = list(words[at:])
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if not rest:
        raise click.UsageError("no container given")
    command = rest[1:]
    return list(words[:at]), rest[0], command[1:] if command[:1] == ["--"] else command


def _takes_value(option: str) -> bool:
    """Return whether the next word is the value of this runtime option."""
    if option.startswith("--"):
        return "=" not in option and option[2:] not in RUNTIME_FLAGS
    return option[-1] in RUNTIME_SHORT and not RUNTIME_SHORT.keys() & set(option[1:-1])
