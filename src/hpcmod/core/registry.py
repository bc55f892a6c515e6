"""The rooms of hpcmod, and what each offers, as the `room.py` of a room says; the rest is imported when it is used.

Functions and commands are named by strings, `module:attribute` within the room: starting hpcmod imports a `room.py`
of a few lines of each room, and a command imports what it calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from importlib import import_module
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

ROOMS = (
    *("core", "machine", "images", "modules", "compat", "catalogue", "jobs", "doctor"),
    *("packages", "building", "notebooks", "runs", "lint", "importing"),
)
"""All rooms; one imports only those to its left. A room after doctor goes with its folder, and its name here."""

Commands = Mapping[str, tuple[str, str]]
"""By command: where it is, and its help in one sentence, the first line of its docstring."""


class Room(NamedTuple):
    """What a room offers."""

    name: str
    commands: Mapping[str, Commands] = MappingProxyType({})
    """By heading of the help; commands below another one by its name: `hpcmod site`, `hpcmod catalogue`."""
    words: Commands = MappingProxyType({})
    """By word of other programs, or two words: what it means, and the command for it, with `{...}` for what follows."""
    verifiers: tuple[str, ...] = ()
    """For `hpcmod verify`: called with an installation and the environment, each yields findings."""
    dependents: tuple[str, ...] = ()
    """For `hpcmod remove`: called with the root of an installation and the environment, each yields Dependents."""
    additions: tuple[str, ...] = ()
    """For the easyblock: called with an easyconfig's parameters and its path, each returns what to add to the image."""
    mpis: tuple[str, ...] = ()
    """For `hpcmod job`: called with the record of an installation and the environment, each returns an added MPI."""
    examples: tuple[str, ...] = ()
    """For `hpcmod catalogue docs`: called with a module and a site, each yields a title and a text to copy and run."""
    schemas: tuple[str, ...] = ()
    """For editors: each returns the JSON Schema of a kind of file that people write, with its name in `title`."""
    apps: tuple[str, ...] = ()
    """For `hpcmod catalogue docs --ondemand`: called with containers, cluster, title and site, each yields files."""


class Dependent(NamedTuple):
    """Something that stops working when an installation is removed."""

    kind: str
    name: str
    removal: str
    """The command that removes it."""


def rooms() -> Iterator[Room]:
    """Yield what each room says of itself, in the order of the rooms; each is imported when it is reached."""
    for name in ROOMS[2:]:  # core and machine have no commands
        yield import_module(f"hpcmod.{name}.room").ROOM


def offered(kind: str) -> Iterator[Any]:
    """Import and yield what rooms offer of a kind, a field of Room: `verifiers`, `dependents`, ..."""
    for room in rooms():
        for place in getattr(room, kind):
            yield load(f"hpcmod.{room.name}.{place}")


def commands_of(group: str) -> dict[str, tuple[str, str]]:
    """Return the commands of all rooms below a heading or a command, each with its full dotted place."""
    return {
        name: (f"hpcmod.{room.name}.{place}", text)
        for room in rooms()
        for name, (place, text) in room.commands.get(group, {}).items()
    }


def known_words() -> dict[str, tuple[str, str]]:
    """Return the words of other programs that the rooms know."""
    return {word: meaning for room in rooms() for word, meaning in room.words.items()}


def find_command(groups: Set[str], name: str) -> str:
    """Return the dotted place of a command below one of some headings; empty if no room has it."""
    for room in rooms():
        for group in groups & room.commands.keys():
            if name in room.commands[group]:
                return f"hpcmod.{room.name}.{room.commands[group][name][0]}"
    return ""


def load(place: str) -> Any:
    """Import what a text of the form `module:attribute` names."""
    module, _, attribute = place.partition(":")
    return attrgetter(attribute)(import_module(module))
