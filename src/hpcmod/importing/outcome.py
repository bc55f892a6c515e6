"""Results of converting a foreign recipe: an easyconfig with what is lost, or a refusal; and names that clash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Union

from hpcmod.core.errors import HpcmodError, explain_os_error
from hpcmod.core.values.reference import ImageReference
from hpcmod.modules import find_recipes, read_recipe
from hpcmod.modules.values.easyconfig import EasyconfigText
from hpcmod.modules.values.spec import COMMAND_NAME, HOST_COMMANDS, Commands

UNPINNED = "no digest is given, so the image is identified by its tag alone"
MOVING = "the tag latest without a digest can mean another image tomorrow"

_LONGEST = 20_000  # characters of a description
_LONGEST_REASON = 400  # characters: a message may quote the recipe
_LONGEST_SHOWN = 2000  # characters of a value in a message


@dataclass(frozen=True)
class ImportedEasyconfig:
    """A recipe, or one version of it, as an hpcmod easyconfig."""

    origin: str
    """The recipe's file and the version in it."""
    easyconfig: EasyconfigText
    left_out: tuple[str, ...] = ()
    """What cannot be converted, one clause each."""
    notes: tuple[str, ...] = ()
    """Other information for the user, one clause each."""
    changed: tuple[str, ...] = ()
    """What has a different effect than before, one clause each."""
    namespace: tuple[str, ...] = ()
    """What precedes the name in the image's source, e.g. ("quay.io", "biocontainers")."""

    @property
    def carried(self) -> tuple[str, ...]:
        """Return what is in the easyconfig, by the names of its parameters, e.g. `docurls`, `the command samtools`."""
        text = self.easyconfig
        names = ("name", "version", "versionsuffix", "image", "description", "homepage", "checksum")
        return (
            *(name for name in (*names, "moduleclass") if getattr(text, name)),
            *(["source_urls"] if text.sif.urls else []),
            *(f"the command {name}" for name, _ in text.wrapped_commands or ()),
            *(f"the bind {bind}" for bind in text.bind_paths),
            *(f"the variable {name}" for name, _ in text.environment),
            *(name for name, _ in text.parameters),
        )


@dataclass(frozen=True)
class Refused:
    """A file that is not a valid recipe, or a recipe that cannot become a module."""

    origin: str
    reason: str


Outcome = Union[ImportedEasyconfig, Refused]


@dataclass
class Findings:
    """What is not the same in the easyconfig, one clause each; fields as in ImportedEasyconfig."""

    left_out: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def outcome(
        self, origin: object, easyconfig: EasyconfigText, namespace: tuple[str, ...] = ()
    ) -> ImportedEasyconfig:
        """Return an easyconfig with these findings."""
        clauses = (tuple(self.left_out), tuple(self.notes), tuple(self.changed))
        return ImportedEasyconfig(str(origin), easyconfig, *clauses, namespace)


def settle_names(outcomes: Sequence[Outcome], *, full_names: bool = False) -> tuple[Outcome, ...]:
    """Note tools that have the same name in several namespaces.

    The name of a module never depends on what else is imported.

    `full_names`: Put the last part of the namespace in front of each name: biocontainers-samtools.
    """
    spaces: dict[str, dict[tuple[str, ...], None]] = {}
    named = list(map(_rename, outcomes)) if full_names else outcomes
    for outcome in named:
        if isinstance(outcome, ImportedEasyconfig):
            spaces.setdefault(outcome.easyconfig.name, {})[outcome.namespace] = None
    return tuple(_note_namesakes(outcome, spaces) for outcome in named)


def _rename(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Refused):
        return outcome
    old = outcome.easyconfig
    name = "-".join((*(part.replace(":", "-") for part in outcome.namespace[-1:]), old.name))
    return replace(outcome, easyconfig=replace(old, name=name))


def _note_namesakes(outcome: Outcome, spaces: Mapping[str, Mapping[tuple[str, ...], None]]) -> Outcome:
    if isinstance(outcome, Refused) or len(spaces[outcome.easyconfig.name]) == 1:
        return outcome
    name = outcome.easyconfig.name
    others = ", ".join("/".join(space) for space in spaces[name] if space != outcome.namespace)
    said = f"--full-names gives tools of one name names of their own: another {name} comes from {others}"
    return replace(outcome, notes=(*outcome.notes, said))


def choose_commands(commands: Mapping[str, tuple[str, ...]], said: Findings) -> Commands:
    """Return the commands that can be wrapped; report the others."""
    chosen = []
    for name, words in commands.items():
        if name in HOST_COMMANDS:
            cure = f"run it by `singularity exec $SIF {name}`"
            said.left_out.append(f"the command {name}, which would hide the host's command: {cure}")
        elif not COMMAND_NAME.fullmatch(name):
            said.left_out.append(f"the command {name!r}, which is not a valid file name")
        else:
            chosen.append((name, words))
    return tuple(chosen)


def full_description(text: str, said: Findings) -> str:
    """Return a description; report that it is cut if it is as long as a book."""
    stripped = text.strip()
    if len(stripped) <= _LONGEST:
        return stripped
    said.left_out.append(f"the description after {_LONGEST} characters: it stays in the recipe")
    return f"{stripped[:_LONGEST].rpartition(' ')[0] or stripped[:_LONGEST]} ..."


def secure_homepage(url: str, said: Findings) -> str:
    """Return an address that a module may show; empty, with a report, if it is not usable."""
    if url.startswith(("https://", "http://")) and url.isprintable() and " " not in url:
        return url
    said.left_out += [f"the address {url!r}, which is not a web address"] if url else []
    return ""


def convert_files(
    paths: Iterable[Path], suffix: str, convert: Callable[[str, Path], Iterable[Outcome]]
) -> list[Outcome]:
    """Convert files, and all below directories whose names end so; one that cannot be converted is refused."""
    outcomes: list[Outcome] = []
    for path in chain.from_iterable(find_recipes(named, suffix) for named in paths):
        try:
            outcomes += convert(read_recipe(path), path)
        except HpcmodError as err:
            outcomes.append(refused(path, err))
    return outcomes


def of_registry(
    easyconfig: EasyconfigText,
    reference: ImageReference,
    commands: Mapping[str, tuple[str, ...]] | None,
    said: Findings,
) -> EasyconfigText:
    """Complete the easyconfig of an image in a registry; report what of it cannot be converted.

    `easyconfig`: With description and address as they are in the recipe.
    `commands`: Commands to wrap, each with the program that it runs and its arguments; None: the default ones of the
        image.
    """
    description = full_description(easyconfig.description, said)
    return replace(
        easyconfig,
        image=reference.text,
        description=description or f"{easyconfig.name} {easyconfig.version}, from {reference.registry}",
        homepage=secure_homepage(easyconfig.homepage, said),
        wrapped_commands=None if commands is None else choose_commands(commands, said),
        moduleclass="tools",
    )


def with_registry(image: str) -> str:
    """Return the name of an image with its registry; a name without one is on Docker Hub."""
    host, slash, _ = image.partition("/")
    named = bool(slash) and ("." in host or ":" in host or host == "localhost")
    return image if named else f"docker.io/{image if slash else f'library/{image}'}"


def refused(origin: object, err: HpcmodError | OSError) -> Refused:
    """Return the refusal for an error."""
    error = explain_os_error(err) if isinstance(err, OSError) else err
    return Refused(str(origin), error.message.removeprefix(f"{origin}: ")[:_LONGEST_REASON])


def shown_text(text: str) -> str:
    """Return text of a recipe for a message, cut if it is very long."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def shell_text(text: str) -> str:
    """Quote text for a shell so that only its `${NAME}` and `${NAME:-}` are expanded, and `$$` means `$`."""
    special = r'\$\$|[\\"`]|\$(?!\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\})'
    return '"' + re.sub(special, lambda match: f"\\{match[0][-1]}", text) + '"'
