"""Answer words that are not commands: those of other programs, commands of a group, misspelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from hpcmod.core.cli.verbs import DESTRUCTIVE, GROUPS
from hpcmod.core.registry import commands_of, known_words
from hpcmod.core.text.quote import sh_word


def answer(group: Sequence[str], args: Sequence[str], commands: Sequence[str]) -> str:
    """Return a sentence with the command that was probably meant, else with the one that lists all commands.

    `group`: Words of the group after `hpcmod`; none for `hpcmod` itself.
    `args`: The unknown word, and what follows it.
    `commands`: Commands of the group.
    """
    typed = [*group, *args]
    for count in (2, 1):  # pip install, then pip
        purpose, line = known_words().get(" ".join(typed[:count]), ("", ""))
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
        lines = below | lines | {name: _fill(line, ()) for name, (_, line) in known_words().items()}
    near = get_close_matches(word, lines, n=1)
    return f"Did you mean: {lines[near[0]]}" if near and not DESTRUCTIVE & set(lines[near[0]].split()) else ""


def _fill(template: str, given: Sequence[str]) -> str:
    """Return a command line with the user's words in place of `{...}`; with options, which may differ, as it is."""
    head, brace, rest = template.partition("{")
    placeholder, _, tail = rest.partition("}")
    plain = given and not any(word.startswith("-") for word in given)
    filled = " ".join(map(sh_word, given)) if plain else placeholder
    return f"{head}{filled if brace else ''}{tail}".strip()
