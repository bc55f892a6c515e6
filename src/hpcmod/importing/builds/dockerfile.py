"""Dockerfiles: a recipe for `hpcmod build`, which needs no Docker to be built.

What becomes of each instruction: docs/reference/import-builds.md. Reference:
https://docs.docker.com/reference/dockerfile/.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.errors import BadInputError
from hpcmod.importing.builds.draft import RecipeDraft, recipe_name
from hpcmod.importing.builds.instructions import (
    HEREDOC,
    Instruction,
    read_instructions,
    read_json_words,
    read_pairs,
    split_flags,
    unquote,
)
from hpcmod.importing.carried import shown_text
from hpcmod.importing.formats import ImportFormat, ImportOption, Watch
from hpcmod.importing.outcome import ImportedRecipe, Outcome, convert_files

NAMES = ("Dockerfile", "Containerfile", ".Dockerfile", ".dockerfile")

_REFERENCE = re.compile(r"\\\$|\$(?:\{(\w+)(?:(:?[-+])([^}]*))?\}|(\w+))")
_FROM = re.compile(r"(\S+)(?:\s+[Aa][Ss]\s+(\S+))?")
LEFT_OUT: Mapping[str, str] = {
    "ENTRYPOINT": "name the command in the easyconfig: wrapped_commands",
    "CMD": "name the command in the easyconfig: wrapped_commands",
    "LABEL": "hpcmod build writes labels of its own",
    "MAINTAINER": "hpcmod build writes labels of its own",
    "HEALTHCHECK": "a SIF runs no services",
    "ONBUILD": "it is for images that are built on this one",
}
"""Instructions without a counterpart, and why."""

CHANGED: Mapping[str, str] = {
    "EXPOSE": "programs use the host's network",
    "VOLUME": "the directory is read-only; bind one to it",
    "USER": "commands of the build run as root, and programs as you",
    "STOPSIGNAL": "the batch system sends signals",
}
"""Instructions with another effect than before, and which."""

_MULTI_STAGE = "build the Dockerfile itself: hpcmod build --context DIRECTORY -f DOCKERFILE"


@dataclass
class _Stage:
    image: str
    name: str
    platform: str
    body: list[Instruction] = field(default_factory=list)


def convert_dockerfile(text: str, path: Path, *, context: Path | None = None) -> ImportedRecipe:
    """Convert a Dockerfile.

    Parameters
    ----------
    context
        Directory that COPY refers to; None: that of the Dockerfile.

    Raises
    ------
    BadInputError
        If it is not valid, or a recipe cannot describe the image.
    """
    instructions = read_instructions(text)
    draft = RecipeDraft(path, recipe_name(_name_of(path)))
    convert_instructions(instructions, draft, (context or path.parent).absolute())
    return draft.finish()


def convert_instructions(instructions: Sequence[Instruction], draft: RecipeDraft, context: Path) -> None:
    """Add the instructions of a Dockerfile to a recipe."""
    before, stages = _split_stages(instructions)
    building = _Building(draft, context)
    for one in before:
        building.argument(one, first=True)
    chain = _chain(stages, building)
    if (context / ".dockerignore").exists():
        draft.said.changed.append("files that .dockerignore excludes are copied too")
    first = chain[0]
    image = building.image(first.image)
    if image == "scratch":
        raise BadInputError("FROM scratch: a recipe needs a base image", "")
    if first.platform:
        architecture = first.platform.partition("/")[2].partition("/")[0]
        if architecture in draft.architectures:
            draft.architectures = (architecture,)
        else:
            draft.said.changed.append(f"--platform={first.platform}: hpcmod builds for the machine it runs on")
    draft.set_base(image)
    for stage in chain:
        for one in stage.body:
            building.take(one)


def convert_body(instructions: Sequence[Instruction], draft: RecipeDraft, context: Path) -> None:
    """Add instructions that follow a FROM to a recipe.

    Raises
    ------
    BadInputError
        If there is another FROM, or a recipe cannot describe them.
    """
    building = _Building(draft, context)
    for one in instructions:
        if one.name == "FROM" or "from" in split_flags(one.text)[0]:
            raise BadInputError(f"{one.name} {shown_text(one.text)}: a recipe has one stage; {_MULTI_STAGE}", "")
        building.take(one)


def _split_stages(instructions: Sequence[Instruction]) -> tuple[list[Instruction], list[_Stage]]:
    """Return the arguments before the first FROM, and the stages."""
    before: list[Instruction] = []
    stages: list[_Stage] = []
    for one in instructions:
        flags, rest = split_flags(one.text)
        if one.name == "FROM":
            match = _FROM.fullmatch(rest.strip())
            if match is None:
                raise BadInputError(f"line {one.line}: FROM {shown_text(rest)} is not valid", "")
            stages.append(_Stage(match[1], (match[2] or "").lower(), flags.get("platform", "")))
        elif stages:
            stages[-1].body.append(one)
        elif one.name == "ARG":
            before.append(one)
        else:
            raise BadInputError(f"line {one.line}: {one.name} before FROM", "")
    if not stages:
        raise BadInputError("it has no FROM", "")
    return before, stages


def _chain(stages: Sequence[_Stage], building: _Building) -> list[_Stage]:
    """Return the stages that the last one is built on, which become one."""
    named = {stage.name: stage for stage in stages if stage.name}
    chain = [stages[-1]]
    while building.image(chain[0].image).lower() in named:
        below = named[building.image(chain[0].image).lower()]
        if below in chain:
            raise BadInputError(f"the stage {below.name} is built on itself", "")
        chain.insert(0, below)
    for one in (one for stage in chain for one in stage.body):
        flags, _ = split_flags(one.text)
        if one.name in ("COPY", "ADD") and "from" in flags:
            raise BadInputError(
                f"line {one.line}: {one.name} --from={flags['from']}: a recipe has one stage; {_MULTI_STAGE}", ""
            )
    unused = [stage.name or "without a name" for stage in stages if stage not in chain]
    if unused:
        building.draft.said.notes.append(f"the last stage does not use the stages {', '.join(unused)}")
    return chain


@dataclass
class _Building:
    """The state while the instructions are read."""

    draft: RecipeDraft
    context: Path
    values: dict[str, str] = field(default_factory=dict)
    """Values of ARG and ENV."""
    global_arguments: dict[str, str] = field(default_factory=dict)
    """Values of ARG before the first FROM."""
    in_base: dict[str, str] = field(default_factory=dict)
    """Values of ARG before the first FROM, with `{KEY}` for arguments that can be set."""
    shell: tuple[str, ...] = ("/bin/sh", "-c")

    def image(self, text: str) -> str:
        """Return the image of a FROM, with `{KEY}` for arguments that can be set."""
        filled = self.expand(text, self.in_base)
        if "$" in filled:
            raise BadInputError(f"FROM {shown_text(text)}: the variable has no default", "")
        return filled

    def expand(self, text: str, values: Mapping[str, str] | None = None) -> str:
        """Replace the known variables; others stay."""
        known = self.values if values is None else values

        def fill(match: re.Match[str]) -> str:
            name, operator, word = match[1] or match[4], match[2], match[3]
            if match[0] == "\\$":
                return match[0]
            if operator and operator.endswith("-") and not known.get(name):
                return word if name in self.values or name not in ("PATH", "LD_LIBRARY_PATH") else match[0]
            if operator and operator.endswith("+"):
                return (word if known.get(name) else "") if name in known else match[0]
            return known.get(name, match[0])

        return _REFERENCE.sub(fill, text)

    def known(self, text: str, where: str) -> str:
        """Return a text with all variables replaced.

        Raises
        ------
        BadInputError
            If one depends on the base image.
        """
        filled = self.expand(text)
        self._report_arguments(text, where)
        if re.search(r"(?<!\\)\$", filled):
            raise BadInputError(f"{where}: {shown_text(text)} depends on the base image: write the value", "")
        return filled.replace("\\$", "$")

    def _report_arguments(self, text: str, where: str) -> None:
        """Report arguments whose default is used, because --set does not change it there."""
        names = {found[1] or found[4] for found in _REFERENCE.finditer(text)} & set(self.draft.arguments)
        for name in sorted(names):
            self.draft.said.changed.append(f"{shown_text(where)}: it has the default of {name}, whatever --set says")

    def take(self, one: Instruction) -> None:
        """Convert an instruction."""
        where = f"line {one.line}: {one.name} {one.text}"
        if one.name in LEFT_OUT:
            self.draft.said.left_out.append(f"{shown_text(where)}: {LEFT_OUT[one.name]}")
        elif one.name in CHANGED:
            self.draft.said.changed.append(f"{shown_text(where)}: {CHANGED[one.name]}")
        elif one.name == "ARG":
            self.argument(one)
        elif one.name == "ENV":
            for name, value in read_pairs(one):
                self._variable(name, value)
        elif one.name == "RUN":
            self._run(one, where)
        elif one.name in ("COPY", "ADD"):
            self._copy(one, where)
        elif one.name == "WORKDIR":
            place = self.known(unquote(one.text), where)
            self.draft.directory = place if place.startswith("/") else f"{self.draft.directory}/{place}"
            self.draft.said.notes.append("WORKDIR holds for the build; a program starts in your own working directory")
        elif one.name == "SHELL":
            self.shell = tuple(read_json_words(one) or ())
            if not self.shell:
                raise BadInputError(f"{where}: expected a list of words", "")

    def argument(self, one: Instruction, *, first: bool = False) -> None:
        """Convert an ARG; `first`: it is before the first FROM, and holds there alone."""
        for name, given in read_pairs(one, bare=True):
            value = self.global_arguments.get(name) if given is None else self.known(given, f"line {one.line}: ARG")
            if first:
                self.global_arguments[name] = value or ""
                if value is not None:
                    self.in_base[name] = self.draft.add_argument(name, value, in_steps=False)
                continue
            if value is None:
                self.draft.said.changed.append(f"the argument {name} has no default: it is empty")
            self.values[name] = value or ""
            self.draft.add_argument(name, value or "")

    def _variable(self, name: str, given: str | None) -> None:
        filled = self.expand(given or "")
        self._report_arguments(given or "", f"ENV {name}={given}")
        value = None if re.search(r"(?<!\\)\$", filled) else filled.replace("\\$", "$")
        self.draft.set_variable(name, filled, value)
        if value is not None:
            self.values[name] = value
        else:
            self.values.pop(name, None)

    def _run(self, one: Instruction, where: str) -> None:
        flags, text = split_flags(one.text)
        mounts = [
            mount for mount in flags.get("mount", "").split() if "type=cache" not in mount and "tmpfs" not in mount
        ]
        if mounts:
            raise BadInputError(f"line {one.line}: RUN --mount={mounts[0]}: {_MULTI_STAGE}", "")
        for name, value in flags.items():
            self.draft.said.changed.append(f"line {one.line}: RUN --{name}={value}: the command runs without it")
        words = read_json_words(one, text)
        if words:
            self.draft.add_command(words, (), where)
            return
        text = text.strip()
        if one.documents and HEREDOC.fullmatch(text):
            body = one.documents[0][1]
            if body.startswith("#!") and not re.match(r"#!\s*/bin/(?:sh|bash)\s*(?:-\w+\s*)?\n", body):
                raise BadInputError(f"line {one.line}: a here-document for {body.splitlines()[0]}: {_MULTI_STAGE}", "")
            command = body
        else:
            command = text + "".join(f"\n{body}{end}" for end, body, _ in one.documents)
        self.draft.add_command(command, self.shell, where.replace("\n", " "))

    def _copy(self, one: Instruction, where: str) -> None:
        flags, text = split_flags(one.text)
        for name, value in flags.items():
            if name == "chown":
                self.draft.said.changed.append(f"{shown_text(where)}: files in a SIF belong to root")
            elif name not in ("chmod", "link"):
                raise BadInputError(f"line {one.line}: {one.name} --{name}={value}: {_MULTI_STAGE}", "")
        words = read_json_words(one, text) or [unquote(word) for word in text.split()]
        words = [self.known(word, where) for word in words if not HEREDOC.fullmatch(word)]
        mode = flags.get("chmod", "")
        if one.documents:
            (_, body, expands), *others = one.documents
            if others or len(words) != 1 or (expands and "$" in body):
                raise BadInputError(
                    f"line {one.line}: {one.name} of several or variable here-documents: {_MULTI_STAGE}", ""
                )
            self.draft.add_file(body, words[0], where, mode=mode)
            return
        if len(words) < 2:
            raise BadInputError(f"{shown_text(where)}: expected sources and a destination", "")
        *sources, place = words
        if any(re.match(r"(?:https?://|git@|git://)", source) for source in sources):
            raise BadInputError(
                f"{shown_text(where)}: fetch the file with RUN, so that its checksum can be checked", ""
            )
        found = [path for source in sources for path in find_sources(self.context, source, where)]
        if re.search(r"[*?\[]", " ".join(sources)):
            self.draft.said.notes.append(f"{shown_text(where)}: the files are those of today: {_named(found)}")
        self.draft.add_copy(found, place, where, like=one.name, mode=mode)


def find_sources(context: Path, source: str, where: str) -> list[Path]:
    """Return the files below a directory that a source names; it may be a pattern.

    Raises
    ------
    BadInputError
        If there are none, or it leaves the directory.
    """
    relative = source.lstrip("/") or "."
    if ".." in relative.split("/") or "\0" in relative:
        raise BadInputError(f"{shown_text(where)}: {source!r} is outside of {context}", "")
    if re.search(r"[*?\[]", relative):
        try:
            found = sorted(context.glob(relative))
        except (ValueError, OSError, NotImplementedError) as err:
            raise BadInputError(f"{shown_text(where)}: {source!r} is not a valid pattern", "") from err
    else:
        found = [context / relative]
    try:
        missing = not found or not all(path.exists() for path in found)
    except OSError as err:
        raise BadInputError(f"{shown_text(where)}: {err.strerror}", "") from err
    if missing:
        raise BadInputError(f"{shown_text(where)}: {source!r} is not in {context}; give its directory: --context", "")
    return found


def _named(paths: Iterable[Path]) -> str:
    return ", ".join(path.name for path in paths)


def _name_of(path: Path) -> str:
    """Return the name of the image: the Dockerfile's suffix or prefix, else its directory's name."""
    stem = re.sub(r"^(?:Dockerfile|Containerfile)\.?|\.?[Dd]ockerfile$", "", path.name)
    return stem or path.absolute().parent.name


def import_dockerfiles(paths: Iterable[Path], *, context: Path | None = None) -> list[Outcome]:
    """Convert Dockerfiles, and all below directories."""
    return convert_files(paths, NAMES, lambda text, path: [convert_dockerfile(text, path, context=context)])


def _convert(paths: Iterable[Path], _: Watch, *, context: str | None = None) -> list[Outcome]:
    return import_dockerfiles(paths, context=Path(context) if context else None)


FORMAT = ImportFormat(
    "Convert Dockerfiles to recipes of `hpcmod build`.",
    _convert,
    examples=("Dockerfile --dry-run", "docker/Dockerfile --context . --output recipes"),
    options=(ImportOption("context", "Directory that COPY refers to (default: the Dockerfile's).", metavar="DIR"),),
    output="recipes",
)
