"""Answer words that are not commands: those of other programs, commands of a group, misspelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from hpcmod.core.cli.verbs import DESTRUCTIVE, GROUPS
from hpcmod.core.registry import commands_of
from hpcmod.core.text.quote import sh_word

WORDS: dict[str, tuple[str, str]] = {
    "list": ("list containers", "hpcmod ls {}"),
    "status": ("list containers", "hpcmod ls"),
    "ps": ("list containers", "hpcmod ls"),
    "images": ("list containers", "hpcmod ls"),
    "avail": ("list containers", "hpcmod ls {}"),
    "spider": ("search containers and their packages", "hpcmod search {TEXT}"),
    "find": ("search containers and their packages", "hpcmod search {TEXT}"),
    "show": ("show what a container contains", "hpcmod info {NAME}"),
    "whatis": ("show what a container contains", "hpcmod info {NAME}"),
    "inspect": ("show what a container contains", "hpcmod info {NAME}"),
    "describe": ("show what a container contains", "hpcmod info {NAME}"),
    "version": ("print the version", "hpcmod --version"),
    "load": ("load a container into your shell", "module load {NAME}"),
    "unload": ("unload a container from your shell", "module unload {NAME}"),
    "start": ("start a shell in a container", "hpcmod shell {NAME}"),
    "run": ("run a command in a container", "hpcmod exec {NAME COMMAND}"),
    "python": ("run Python in a container", "hpcmod exec NAME python {FILE}"),
    "notebook": ("run a Jupyter server on a compute node", "hpcmod jupyter {NAME}"),
    "pull": ("fetch an image as a SIF", "hpcmod fetch {IMAGE}"),
    "download": ("fetch an image as a SIF", "hpcmod fetch {IMAGE}"),
    "convert": ("make a SIF of any image", "hpcmod fetch {IMAGE}"),
    "create": ("build an image", "hpcmod build {RECIPE}"),
    "commit": ("put your packages into a new image", "hpcmod bake {NAME}"),
    "login": ("log in to a registry", "podman login HOST, or: apptainer registry login docker://HOST"),
    "uninstall": ("remove an installation", "hpcmod remove {NAME}"),
    "rm": ("remove an installation", "hpcmod remove {NAME}"),
    "delete": ("remove an installation", "hpcmod remove {NAME}"),
    "upgrade": ("update your installations", "hpcmod update {NAME}"),
    "reinstall": ("restore the files of an installation", "hpcmod repair {NAME}"),
    "accept": ("read and accept a licence", "hpcmod install --accept-licence {NAME}"),
    "pip": ("add Python packages to a container", "hpcmod add NAME {PACKAGE}"),
    "pip install": ("add Python packages to a container", "hpcmod add NAME {PACKAGE}"),
    "pip uninstall": ("remove packages that you added", "hpcmod drop NAME {PACKAGE}"),
    "pip list": ("show the packages that you added", "hpcmod packages NAME"),
    "conda": ("add conda packages to a container", "hpcmod add NAME --conda {PACKAGE}"),
    "pack": ("change your packages by hand", "hpcmod edit {NAME}"),
    "freeze": ("print a lock file of your packages", "hpcmod packages NAME --lock"),
    "submit": ("write a batch script and submit it", "hpcmod job NAME PROGRAM --submit"),
    "sbatch": ("write a batch script and submit it", "hpcmod job NAME PROGRAM --submit"),
    "srun": ("run a program in your allocation", "hpcmod launch {NAME PROGRAM}"),
    "logs": ("explain why a run failed", "hpcmod why {JOB}"),
    "test": ("verify an installation", "hpcmod verify {NAME}"),
    "verify-net": ("prove that a container uses the fast network", "hpcmod check --network {NAME}"),
    "diff": ("compare two containers", "hpcmod info FIRST --diff SECOND"),
    "config": ("show the settings of this machine", "hpcmod site show"),
    "clean": ("clean the cache of downloads", "hpcmod cache gc"),
    "prune": ("clean the cache of downloads", "hpcmod cache gc"),
    "cache clean": ("clean the cache of downloads", "hpcmod cache gc"),
    "cache prune": ("clean the cache of downloads", "hpcmod cache gc"),
    "tag": ("point an alias at a container", "hpcmod catalogue promote NAME/VERSION --alias WORD"),
    "alias": ("point an alias at a container", "hpcmod catalogue promote NAME/VERSION --alias WORD"),
    "export": ("pack easyconfigs and images for an offline machine", "hpcmod bundle"),
    "history": ("list the changes of a catalogue", "hpcmod catalogue journal {}"),
}
"""By word, or two words: what it means, and the command for it, with the user's own words in place of `{...}`."""


def answer(group: Sequence[str], args: Sequence[str], commands: Sequence[str]) -> str:
    """Return a sentence with the command that was probably meant, else with the one that lists all commands.

    Parameters
    ----------
    group
        Words of the group after `hpcmod`; none for `hpcmod` itself.
    args
        The unknown word, and what follows it.
    commands
        Commands of the group.
    """
    typed = [*group, *args]
    for count in (2, 1):  # pip install, then pip
        purpose, line = WORDS.get(" ".join(typed[:count]), ("", ""))
        if line and len(group) < count:
            return f"To {purpose}: {_fill(line, typed[count:])}"
    here = " ".join(["hpcmod", *group])
    return _find_regrouped(here, args, commands) or _find_near(here, args[0], commands) or f"See: {here} --help"


def _find_regrouped(here: str, args: Sequence[str], commands: Sequence[str]) -> str:
    """Return the sentence for a command of another group, or one that is joined with its group by a hyphen."""
    word, _, below = args[0].partition("-")
    if word in commands and below:
        meant = [word, below]
    elif args[0] == "list" and "ls" in commands:
        meant = ["ls"]
    else:
        meant = [name for name in GROUPS if args[0] in commands_of(f"hpcmod {name}") and here == "hpcmod"][:1]
        meant += args[:1] if meant else []
    return f"Use: {here} {' '.join(map(sh_word, [*meant, *args[1:]]))}" if meant else ""


def _find_near(here: str, word: str, commands: Sequence[str]) -> str:
    """Return the sentence for a word that was misspelled, unless its command may destroy something."""
    lines = {name: f"{here} {name}" for name in commands}
    if here == "hpcmod":
        below = {name: f"hpcmod {group} {name}" for group in GROUPS for name in commands_of(f"hpcmod {group}")}
        lines = below | lines | {name: _fill(line, ()) for name, (_, line) in WORDS.items()}
    near = get_close_matches(word, lines, n=1)
    return f"Did you mean: {lines[near[0]]}" if near and not DESTRUCTIVE & set(lines[near[0]].split()) else ""


def _fill(template: str, given: Sequence[str]) -> str:
    """Return a command line with the user's words in place of `{...}`; with options, which may differ, as it is."""
    head, brace, rest = template.partition("{")
    placeholder, _, tail = rest.partition("}")
    plain = given and not any(word.startswith("-") for word in given)
    filled = " ".join(map(sh_word, given)) if plain else placeholder
    return f"{head}{filled if brace else ''}{tail}".strip()
