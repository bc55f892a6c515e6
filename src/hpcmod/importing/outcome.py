"""Results of converting a foreign recipe: an easyconfig with what is lost, or a refusal; and names that clash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Union

from hpcmod.check.easyconfigs.files import find_recipes, read_recipe
from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.model.images.reference import ImageReference
from hpcmod.model.recipes.recipe_text import RecipeText
from hpcmod.model.spec import COMMAND_NAME, HOST_COMMANDS
from hpcmod.render.easyconfig import EasyconfigText

UNPINNED = "no digest is given, so the image is identified by its tag alone"

_LONGEST = 210  # characters of a description: fits on two lines of an easyconfig
_LONGEST_REASON = 400  # characters: a message may quote the recipe


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
    commands: tuple[str, ...] = ()
    """Command lines to use in place of the recipe's own, once the module is installed."""
    namespace: tuple[str, ...] = ()
    """What precedes the name in the image's source, e.g. ("quay.io", "biocontainers")."""


@dataclass(frozen=True)
class ImportedRecipe:
    """A build recipe of another tool, as a recipe for `hpcmod build`."""

    origin: str
    name: str
    """Name of its directory."""
    text: RecipeText
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """A file that is not a valid recipe, or a recipe that cannot become a module."""

    origin: str
    reason: str


Outcome = Union[ImportedEasyconfig, ImportedRecipe, Refused]


def settle_names(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Rename tools that have the same name in several namespaces, and refuse duplicates of a module.

    Notes
    -----
    Modules of both tools under one name would look like versions of one tool.
    """
    converted = [one for one in outcomes if isinstance(one, ImportedEasyconfig)]
    places = Counter(name for name, _ in {(one.easyconfig.name, one.namespace) for one in converted})
    last = Counter((name, space[-1:]) for name, space in {(one.easyconfig.name, one.namespace) for one in converted})
    renamed = (
        _rename(one, whole=last[one.easyconfig.name, one.namespace[-1:]] > 1)
        if isinstance(one, ImportedEasyconfig) and places[one.easyconfig.name] > 1
        else one
        for one in outcomes
    )
    return tuple(_refuse_twins(renamed))


def _rename(one: ImportedEasyconfig, *, whole: bool) -> ImportedEasyconfig:
    old = one.easyconfig
    name = "-".join((*(one.namespace if whole else one.namespace[-1:]), old.name))
    said = f"named {name}, because there are several {old.name}"
    return replace(one, easyconfig=replace(old, name=name), notes=(*one.notes, said))


def _refuse_twins(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    made: dict[str, str] = {}
    for one in outcomes:
        if isinstance(one, ImportedEasyconfig) and one.easyconfig.module in made:
            module = one.easyconfig.module
            yield Refused(one.origin, f"would make {module}, which {made[module]} already makes")
            continue
        if isinstance(one, ImportedEasyconfig):
            made[one.easyconfig.module] = one.origin
        yield one


def choose_commands(names: Iterable[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the commands that can be wrapped, each once, and a description of the others."""
    wanted = tuple(dict.fromkeys(names))
    hiding = [name for name in wanted if name in HOST_COMMANDS]
    odd = [name for name in wanted if not COMMAND_NAME.fullmatch(name)]
    said = [f"the command {name}, which would hide the host's command" for name in hiding]
    said += [f"the command {name[:60]!r}, which is not a valid file name" for name in odd]
    return tuple(name for name in wanted if name not in (*hiding, *odd)), said


def shorten(text: str) -> tuple[str, list[str]]:
    """Return a description shortened to one line, and a note if that loses some of it."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST:
        return line, []
    return f"{line[:_LONGEST].rpartition(' ')[0] or line[:_LONGEST]} ...", ["the rest of the description"]


def secure_homepage(url: str) -> tuple[str, list[str]]:
    """Return an address that a module may show, and a note if it is not usable."""
    usable = url.startswith(("https://", "http://")) and url.isprintable() and " " not in url
    return (url, []) if usable else ("", [f"the address {url[:60]!r}"] if url else [])


def convert_files(
    paths: Iterable[Path], suffixes: tuple[str, ...], convert: Callable[[str, Path], Iterable[Outcome]]
) -> list[Outcome]:
    """Convert files, and all below directories whose names end so; one that cannot be converted is refused."""
    outcomes: list[Outcome] = []
    for path in (found for named in paths for found in find_recipes(named, suffixes)):
        try:
            outcomes += convert(read_recipe(path), path)
        except HpcmodError as err:
            outcomes.append(refused(path, err))
    return outcomes


def describe_registry_image(
    name: str,
    version: str,
    reference: ImageReference,
    *,
    description: str,
    url: str,
    commands: Iterable[str] | None,
    words: Mapping[str, tuple[str, ...]] | None = None,
    environment: Iterable[tuple[str, str]] = (),
) -> tuple[EasyconfigText, list[str]]:
    """Return the easyconfig of an image in a registry, and notes on what cannot be converted.

    Parameters
    ----------
    commands
        Commands to wrap; None: the default ones that the image has.
    words
        Arguments of the commands that run something other than the program of their name.

    Raises
    ------
    BadInputError
        If name or version is not valid in a module name.
    """
    line, of_description = shorten(description)
    homepage, of_homepage = secure_homepage(url)
    wrapped, of_commands = choose_commands(commands or ())
    easyconfig = EasyconfigText(
        name=name,
        version=version,
        image=reference.text,
        description=line or f"{name} {version}, from {reference.registry}",
        homepage=homepage,
        wrapped_commands=None if commands is None else wrapped,
        command_words=tuple((command, words[command]) for command in wrapped if command in words) if words else (),
        environment=tuple(environment),
        moduleclass="tools",
    )
    return easyconfig, [*of_commands, *of_description, *of_homepage]


def with_registry(image: str) -> str:
    """Return the name of an image with its registry; a name without one is on Docker Hub."""
    host, slash, _ = image.partition("/")
    named = bool(slash) and ("." in host or ":" in host or host == "localhost")
    return image if named else f"docker.io/{image if slash else f'library/{image}'}"


def choose_version(reference: ImageReference) -> str:
    """Return the version of a module by the tag of its image, or by the digest.

    Raises
    ------
    BadInputError
        If there is neither a digest nor a tag other than `latest`.
    """
    if reference.tag == "latest" and not reference.pinned:
        raise BadInputError("the tag latest without a digest can mean another image tomorrow: give a tag", "")
    if reference.tag and reference.tag != "latest":
        return reference.tag
    return f"{reference.tag or 'sha256'}-{reference.digest[7:15]}"


def refused(origin: object, err: HpcmodError) -> Refused:
    """Return the refusal for an error."""
    return Refused(str(origin), err.message.removeprefix(f"{origin}: ")[:_LONGEST_REASON])
