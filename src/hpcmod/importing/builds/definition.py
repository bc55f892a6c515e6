"""Definition files of Apptainer and Singularity: a recipe for `hpcmod build`, which other engines can build as well.

What becomes of each section: docs/reference/import-builds.md. Reference:
https://apptainer.org/docs/user/latest/definition_files.html.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.errors import BadInputError
from hpcmod.importing.builds.dockerfile import find_sources
from hpcmod.importing.builds.draft import RecipeDraft, recipe_name
from hpcmod.importing.carried import shown_text
from hpcmod.importing.formats import ImportFormat, ImportOption, Watch
from hpcmod.importing.outcome import ImportedRecipe, Outcome, convert_files, with_registry

SUFFIXES = (".def", "Singularity", ".singularity")

AGENTS: Mapping[str, str] = {
    "docker": "",
    "localimage": "",
    "oci": "oci:",
    "oci-archive": "oci-archive:",
    "docker-archive": "docker-archive:",
}
"""Values of Bootstrap that a recipe can start from, and the beginning of such a base."""

LEFT_OUT: Mapping[str, str] = {
    "runscript": "name the command in the easyconfig: wrapped_commands",
    "startscript": "modules start no instances",
    "test": "write its commands in the easyconfig: sanity_check_commands",
    "labels": "hpcmod build writes labels of its own",
    "help": "write it in the easyconfig: description",
    "setup": "it runs on your machine, outside of the container, before the build: run it yourself",
    "pre": "it runs on your machine, outside of the container, before the build: run it yourself",
}
"""Sections without a counterpart, and what to do instead."""

_HEADER = re.compile(r"([A-Za-z]+)\s*:\s*(.*)")
_SECTION = re.compile(r"%([a-zA-Z]\w*)(.*)")
_ARGUMENT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OF_BUILD = re.compile(r"\b(?:APPTAINER|SINGULARITY)_(?:ENVIRONMENT|LABELS|ROOTFS)\b")
_OTHER_WAY = "build it with apptainer build, and use hpcmod import sif"
_READ = ("arguments", "files", "post", "environment")


@dataclass(frozen=True)
class DefinitionSection:
    """One section of a definition file."""

    name: str
    """In lower case, without the percent sign."""
    arguments: str
    """What follows the name."""
    text: str
    line: int


def convert_definition(text: str, path: Path, *, context: Path | None = None) -> ImportedRecipe:
    """Convert a definition file.

    Parameters
    ----------
    context
        Directory that `%files` refers to; None: that of the file.

    Raises
    ------
    BadInputError
        If it is not valid, or a recipe cannot describe the image.
    """
    headers, sections = read_definition(text)
    draft = RecipeDraft(
        path,
        recipe_name(re.sub(r"^Singularity\.?|\.(?:def|singularity)$", "", path.name) or path.absolute().parent.name),
    )
    arguments = _arguments(sections)
    filled = [
        DefinitionSection(one.name, one.arguments, _fill(one.text, arguments, draft), one.line) for one in sections
    ]
    _set_base({name: _fill(value, arguments, draft) for name, value in headers.items()}, draft, path)
    for name in ("files", "post"):
        for section in (one for one in filled if one.name == name):
            if name == "files":
                _copy(section, draft, (context or path.parent).absolute())
            else:
                _run(section, draft)
    for section in (one for one in filled if one.name == "environment"):
        _set_variables(section, draft)
    for section in (one for one in filled if one.name not in _READ):
        app = section.name.startswith("app") and section.arguments.strip()
        reason = (
            "a recipe has no apps: install the program in %post" if app else LEFT_OUT.get(section.name, "it is unknown")
        )
        draft.said.left_out.append(
            f"line {section.line}: %{section.name}{section.arguments.rstrip()}: {reason}"
            + (f": {shown_text(' '.join(section.text.split()))}" if section.text.strip() else "")
        )
    draft.said.notes.append("the commands of %post have the variables of the base image")
    return draft.finish()


def read_definition(text: str) -> tuple[dict[str, str], list[DefinitionSection]]:
    """Split a definition file into its header, by names in lower case, and its sections.

    Raises
    ------
    BadInputError
        If it has several stages, or text outside of the header and the sections.
    """
    headers: dict[str, str] = {}
    found: list[tuple[str, str, list[str], int]] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        section = _SECTION.fullmatch(line.strip()) if line.startswith("%") else None
        header = _HEADER.fullmatch(line.strip())
        if section:
            found.append((section[1].lower(), section[2], [], number))
        elif header and header[1].lower() == "bootstrap" and headers and not (found and found[-1][0] == "arguments"):
            raise BadInputError(f"line {number}: a recipe has one stage, and this file several: {_OTHER_WAY}", "")
        elif found and not (header and found[-1][0] == "arguments" and header[1].lower() in ("bootstrap", "from")):
            found[-1][2].append(line)
        elif header:
            headers[header[1].lower()] = header[2].partition(" #")[0].strip()
        elif line.strip() and not line.lstrip().startswith("#"):
            raise BadInputError(f"line {number}: {line.strip()[:60]!r} is neither a header nor in a section", "")
    if not headers:
        raise BadInputError("it has no header: expected Bootstrap and From", "")
    return headers, [DefinitionSection(name, rest, "\n".join(lines), number) for name, rest, lines, number in found]


def _arguments(sections: Iterable[DefinitionSection]) -> dict[str, str]:
    """Return the defaults of %arguments."""
    lines = (line.partition("=") for one in sections if one.name == "arguments" for line in one.text.split("\n"))
    return {
        name.strip(): value.strip().strip("\"'") for name, equals, value in lines if equals and name.strip()[:1] != "#"
    }


def _fill(text: str, arguments: Mapping[str, str], draft: RecipeDraft) -> str:
    """Replace `{{ NAME }}` by the default of the argument.

    Raises
    ------
    BadInputError
        If it has none.
    """

    def fill(match: re.Match[str]) -> str:
        if match[1] not in arguments:
            raise BadInputError(f"the argument {match[1]} has no default in %arguments", "")
        draft.said.changed.append(f"the argument {match[1]}: it is always {shown_text(arguments[match[1]])!r}")
        return arguments[match[1]]

    return _ARGUMENT.sub(fill, text)


def _set_base(headers: Mapping[str, str], draft: RecipeDraft, path: Path) -> None:
    agent, image = headers.get("bootstrap", "").lower(), headers.get("from", "")
    if agent not in AGENTS:
        raise BadInputError(f"Bootstrap: {agent or 'missing'}: a recipe cannot start from that; {_OTHER_WAY}", "")
    if headers.get("stage", "build") and "stage" in headers:
        draft.said.notes.append(f"the stage {headers['stage']} is the only one")
    for name, value in headers.items():
        if name not in ("bootstrap", "from", "stage", "registry", "namespace"):
            draft.said.left_out.append(f"{name}: {shown_text(value)}: hpcmod has nothing that corresponds to it")
    if agent == "docker":
        image = image.removeprefix("//")
        place = [headers[name].strip("/") for name in ("registry", "namespace") if name in headers]
        draft.set_base("/".join([*place, image]) if place else with_registry(image))
    elif agent == "localimage":
        draft.set_base(image if image.startswith("/") else str(path.absolute().parent / image))
    else:
        draft.set_base(f"{AGENTS[agent]}{image}")


def _copy(section: DefinitionSection, draft: RecipeDraft, context: Path) -> None:
    """Add the files of a %files section: SOURCE [DESTINATION]."""
    where = f"%files{section.arguments.rstrip()}"
    if section.arguments.strip():
        raise BadInputError(f"line {section.line}: {where}: a recipe has one stage: {_OTHER_WAY}", "")
    for line in section.text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError as err:
            raise BadInputError(f"line {section.line}: {where} {line.strip()}: {err}", "") from err
        if len(words) > 2:
            raise BadInputError(f"line {section.line}: {where} {line.strip()}: expected SOURCE [DESTINATION]", "")
        source, place = words[0], words[-1]
        if "$" in f"{source}{place}":
            raise BadInputError(f"line {section.line}: {where} {line.strip()}: write the value of the variable", "")
        root = Path("/") if source.startswith("/") else context
        found = find_sources(root, source, f"{where} {line.strip()}")
        if not place.startswith("/"):
            place = f"/{place}"
        if len(words) == 1 and re.search(r"[*?\[]", place):
            place = f"{place.rpartition('/')[0]}/"
        draft.add_copy(found, place, f"{where} {line.strip()}", like="%files")


def _run(section: DefinitionSection, draft: RecipeDraft) -> None:
    """Add a %post section, which runs with `sh -ex`, or with the shell that `-c` names."""
    words = section.arguments.split()
    shell = tuple(words[1:]) if words[:1] == ["-c"] and len(words) > 1 else ("/bin/sh",)
    for name in sorted(set(_OF_BUILD.findall(section.text))):
        draft.said.left_out.append(f"what %post writes to ${name}: set variables in the easyconfig: environment")
    if not section.text.strip():
        return
    text = section.text
    if _OF_BUILD.search(text):
        names = ("APPTAINER_ENVIRONMENT", "SINGULARITY_ENVIRONMENT", "APPTAINER_LABELS", "SINGULARITY_LABELS")
        text = "".join(f"export {name}=/dev/null\n" for name in names) + text
    draft.add_command(text, (*shell, "-ec") if len(shell) == 1 else (*shell, "-c"), f"%post at line {section.line}")


def _set_variables(section: DefinitionSection, draft: RecipeDraft) -> None:
    """Set the variables of %environment in the image; report other commands."""
    for statement in _statements(section.text):
        match = _ASSIGNMENT.fullmatch(statement)
        value = _literal(match[2]) if match else None
        if match and value is not None:
            draft.set_variable(match[1], value, None if "$" in value else value)
        elif not re.fullmatch(r"export(?:\s+[A-Za-z_]\w*)+", statement):
            draft.said.left_out.append(
                f"in %environment: {shown_text(statement)}: only NAME=VALUE can be carried; set it in the easyconfig"
            )


def _statements(text: str) -> Iterator[str]:
    """Yield the statements of a simple script, without comments."""
    for line in re.sub(r"\\\n", "", text).split("\n"):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield stripped


def _literal(word: str) -> str | None:
    """Return the value of one word of a shell, with `$` for its variables; None if it is more than that."""
    given = re.fullmatch(r"'([^'$]*)'|\"([^\"`\\]*)\"|([^\s\"'`\\;&|<>()#~*?{}\[\]$]|\$\w+|\$\{\w+\})*", word.strip())
    if given is None or "$(" in word:
        return None
    return given[1] if given[1] is not None else given[2] if given[2] is not None else word.strip()


def import_definitions(paths: Iterable[Path], *, context: Path | None = None) -> list[Outcome]:
    """Convert definition files, and all below directories."""
    return convert_files(paths, SUFFIXES, lambda text, path: [convert_definition(text, path, context=context)])


def _convert(paths: Iterable[Path], _: Watch, *, context: str | None = None) -> list[Outcome]:
    return import_definitions(paths, context=Path(context) if context else None)


FORMAT = ImportFormat(
    "Convert definition files of Apptainer and Singularity to recipes of `hpcmod build`.",
    _convert,
    examples=("app.def --dry-run", "app.def --output recipes"),
    options=(ImportOption("context", "Directory that %files refers to (default: the file's).", metavar="DIR"),),
    output="recipes",
)
