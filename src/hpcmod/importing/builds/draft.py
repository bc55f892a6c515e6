"""A recipe for `hpcmod build` while it is made from another tool's build recipe: steps, files, variables.

Commands become component scripts, in which all foreign text is quoted. They run as in the original: with its shell, its
working directory and its variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.importing.carried import Findings, shown_text
from hpcmod.importing.mounts import shell_text
from hpcmod.importing.outcome import ImportedRecipe, with_registry
from hpcmod.model.recipes.build_plan import BUILD_ROOT
from hpcmod.model.recipes.recipe import check_value, parse_base
from hpcmod.model.recipes.recipe_text import RecipeText, StepText
from hpcmod.model.spec import why_no_variable
from hpcmod.render.quote import sh, sh_comment

SEARCHED = ("PATH", "LD_LIBRARY_PATH")
"""Variables to which a recipe can prepend directories."""

_FILES = f"{BUILD_ROOT}/files"
_LONGEST_COMMAND = 100_000  # bytes; the kernel allows 131,072 in one argument
_DIRECTORIES = re.compile(r"[A-Za-z0-9._+:/=,@~-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = ("mpi", "ofi", "with", "arch", "host_libs")
_DOCKER_ENVIRONMENT = 'for file in /.singularity.d/env/10-docker*.sh; do [ ! -r "$file" ] || . "$file"; done'
"""Sets the variables of the base image in a step: Apptainer does not, unlike the other engines."""


@dataclass
class RecipeDraft:
    """A recipe in the making."""

    origin: Path
    name: str
    said: Findings = field(default_factory=Findings)
    base: str = ""
    architectures: tuple[str, ...] = ("amd64", "arm64")
    settings: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    search: list[tuple[str, str]] = field(default_factory=list)
    steps: list[StepText] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """Local paths by their names below `files` in the build context."""
    exports: list[tuple[str, str]] = field(default_factory=list)
    """Variables of the steps in order: for each a word of a shell, quoted, which may refer to earlier ones."""
    arguments: dict[str, str] = field(default_factory=dict)
    """Variables of the steps that `--set` changes: `{KEY}` by name."""
    directory: str = ""
    """Working directory of the steps; empty: the root."""

    def set_base(self, image: str) -> None:
        """Set the base image, `{KEY}` of the settings included.

        Raises
        ------
        BadInputError
            If an engine cannot use it.
        """
        text = (
            image
            if re.match(r"(?:oci|oci-archive|docker-archive):|/|\./", image)
            else f"docker://{with_registry(image)}"
        )
        filled = re.sub(r"\{([a-z][a-z0-9_-]*)\}", lambda found: self.settings.get(found[1], found[0]), text)
        reference = parse_base(filled)
        if reference.registry and not reference.pinned and reference.tag == "latest":
            self.said.notes.append(
                "the base image has no tag but latest: hpcmod build notes its digest in your lock file at first use"
            )
        self.base = text

    def add_argument(self, name: str, value: str, *, in_steps: bool = True) -> str:
        """Add a build argument with its default, which `hpcmod build --set` can change if a recipe can have it.

        Return `{KEY}` for it; the value if it cannot be changed.
        """
        key = name.lower()
        if not _VARIABLE.fullmatch(name):
            raise BadInputError(f"{name!r} is not a valid variable name", "")
        can_be_set = re.fullmatch("[a-z][a-z0-9_]*", key) and key not in _RESERVED and value and _is_plain(value)
        if can_be_set and self.settings.get(key, value) == value:
            self.settings[key] = value
            if in_steps:
                self.arguments[name] = f"{{{key}}}"
                self._export(name, None)
            return f"{{{key}}}"
        self.said.changed.append(f"the argument {name}: it is always {shown_text(value)!r}, and --set cannot change it")
        if in_steps:
            self._export(name, sh(value))
        return value

    def set_variable(self, name: str, given: str, value: str | None) -> None:
        """Set a variable of the image and of all further steps.

        Parameters
        ----------
        given
            As written, with `$` before the names of variables.
        value
            With its variables replaced; None: it depends on one whose value is not known.
        """
        if not _VARIABLE.fullmatch(name):
            self.said.left_out.append(f"the variable {shown_text(name)!r}, which is not a valid name")
            return
        if value is not None:
            self._export(name, sh(value))
        else:
            self.exports.append((name, shell_text(re.sub(r"\$([A-Za-z_]\w*)", r"${\1}", given))))
        before = re.sub(rf":?\$(?:{name}\b|\{{{name}(?::-)?\}}|\{{{name}:\+:\$(?:{name}|\{{{name}\}})\}})$", "", given)
        if value is None and name in SEARCHED and before != given and _DIRECTORIES.fullmatch(before):
            self.search.append((name, before))
        elif value is not None and _is_plain(value) and value:
            self.environment[name] = value
        else:
            self.said.left_out.append(
                f"the variable {name}={shown_text(given)} of the image: {_how_to_set(name, value)}"
            )

    def _export(self, name: str, word: str | None) -> None:
        """Set a variable of further steps to a word without references; None: an argument sets it."""
        self.exports = [(one, text) for one, text in self.exports if one != name]
        if word is not None:
            self.exports.append((name, word))
            self.arguments.pop(name, None)

    def add_command(self, command: str | Sequence[str], shell: Sequence[str], where: str) -> None:
        """Add a step that runs a command.

        Parameters
        ----------
        command
            Text for the shell, or words that run without one.
        shell
            Words before the text, e.g. ("/bin/sh", "-c").
        where
            Place in the original, for a comment.
        """
        if isinstance(command, str):
            if len(command.encode("utf-8", "replace")) > _LONGEST_COMMAND:
                raise BadInputError(f"{where}: a command of more than {_LONGEST_COMMAND} bytes", "")
            lines = [*_document("command", command), f'exec {" ".join(map(sh, shell))} "$command"']
        else:
            lines = [f"exec {' '.join(map(sh, command))}"]
        self._add("run", lines, where)

    def add_file(self, text: str, place: str, where: str, *, mode: str = "") -> None:
        """Add a step that writes a file with this text."""
        target = self._absolute(place)
        lines = [f"target={sh(target)}", *_document("text", text), 'mkdir -p -- "$(dirname -- "$target")"']
        lines += ['printf "%s" "$text" > "$target"', *([f'chmod {sh(mode)} -- "$target"'] if mode else [])]
        self._add("write", lines, where)

    def add_copy(self, sources: Sequence[Path], place: str, where: str, *, like: str, mode: str = "") -> None:
        """Add a step that copies local files into the image.

        Parameters
        ----------
        like
            `COPY`: the content of a directory is copied; `ADD`: likewise, and archives are unpacked; `%files`: a
            directory is copied itself, as cp does.
        """
        target = self._absolute(place)
        into = place.endswith("/") or place in (".", "..") or len(sources) > 1
        lines = [f"target={sh(target)}", f"into={'yes' if into else 'no'}", f"mode={sh(mode)}", *_COPYING]
        for source in sources:
            lines.append(f"{_COPIERS[like]} {sh(f'{self.add_input([source])}/{source.name}')}")
        self._add("copy", lines, where)

    def add_input(self, paths: Sequence[Path]) -> str:
        """Add local files for further steps, and return their directory in the build."""
        number = len({name.partition("/")[0] for name in self.files}) + 1
        self.files.update({f"{number}/{path.name}": str(path.absolute()) for path in paths})
        return f"{_FILES}/{number}"

    def _absolute(self, place: str) -> str:
        return place if place.startswith("/") else f"{self.directory or ''}/{place.removeprefix('./')}"

    def _add(self, kind: str, lines: Sequence[str], where: str) -> None:
        name = f"{kind}-{len(self.steps) + 1:02}"
        script = [
            f"# {sh_comment(where)}",
            "set -e",
            _DOCKER_ENVIRONMENT,
            *(f"export {name}={value}" for name, value in self.exports),
            *([f"mkdir -p -- {sh(self.directory)}"] if self.directory else []),
            f"cd -- {sh(self.directory or '/')}",
            *lines,
        ]
        self.steps.append(StepText(name, "\n".join(script) + "\n", tuple(self.arguments.items())))

    def finish(self) -> ImportedRecipe:
        """Return the recipe.

        Raises
        ------
        BadInputError
            If it has no base image, or nothing to do.
        """
        if not self.base:
            raise BadInputError("it names no base image", "")
        if not self.steps:
            raise BadInputError("it adds nothing to its base image: use hpcmod fetch", "")
        text = RecipeText(
            summary=f"{self.name}, from {self.origin.name}",
            gpu=_gpu_of(self.base),
            bases=tuple((one, self.base) for one in self.architectures),
            settings=tuple(self.settings.items()),
            environment=tuple(self.environment.items()),
            search=tuple(self.search),
            files=tuple(self.files.items()),
            steps=tuple(self.steps),
        )
        said = self.said
        said.notes.append(f'gpu = "{text.gpu}" in the recipe is a guess from the name of the base image')
        return ImportedRecipe(
            origin=str(self.origin),
            name=self.name,
            text=text,
            left_out=tuple(dict.fromkeys(said.left_out)),
            notes=tuple(dict.fromkeys(said.notes)),
            changed=tuple(dict.fromkeys(said.changed)),
        )


def recipe_name(text: str) -> str:
    """Return a name for a recipe: lower case, letters, digits and dashes."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
    return name if re.match("[a-z]", name) else f"image-{name}".strip("-")


_COPYING = (
    "put() {",
    '    if [ "$into" = yes ] || [ -d "$target" ]; then set -- "$1" "$target/$(basename -- "$1")"; fi',
    '    [ "$into" = yes ] || [ -d "$target" ] || set -- "$1" "$target"',
    '    mkdir -p -- "$(dirname -- "$2")"',
    '    cp -fLR -- "$1" "$2"',
    '    [ -z "$mode" ] || chmod -R "$mode" -- "$2"',
    "}",
    "copy() {",
    '    if [ ! -d "$1" ]; then put "$1"; return; fi',
    '    mkdir -p -- "$target"',
    '    cp -fR -- "$1/." "$target/"',
    '    [ -z "$mode" ] || chmod -R "$mode" -- "$target"',
    "}",
    "add() {",
    "    case $1 in",
    '    *.tar | *.tar.gz | *.tgz | *.tar.bz2 | *.tar.xz) mkdir -p -- "$target"; tar -xf "$1" -C "$target" ;;',
    '    *) copy "$1" ;;',
    "    esac",
    "}",
)
"""Functions of a script that copies: as COPY, as ADD, and as %files."""

_COPIERS = {"COPY": "copy", "ADD": "add", "%files": "put"}


def _document(variable: str, text: str) -> list[str]:
    """Return lines of bash that set a variable to a text, which stays readable and is not expanded."""
    if not text:
        return [f"{variable}="]
    lines = text.removesuffix("\n").split("\n")
    end = "HPCMOD_END"
    while end in lines:
        end += "_"
    if "\0" in text:
        raise BadInputError("it contains a NUL", "")
    return [f"IFS= read -r -d '' {variable} <<'{end}' || true", *lines, end]


def _is_plain(value: str) -> bool:
    """Return whether a recipe can contain a value."""
    try:
        return bool(check_value(value, "the value")) and not set("{}") & set(value)
    except HpcmodError:
        return False


def _how_to_set(name: str, value: str | None) -> str:
    if value is None:
        return "it depends on the base image; set it in the easyconfig"
    if why_no_variable(name, value):
        return "a recipe cannot have this value; set it in a script"
    return f"a recipe cannot have this value; in the easyconfig: environment = {{{name!r}: {shown_text(value)!r}}}"


def _gpu_of(base: str) -> str:
    names: Mapping[str, str] = {"nvcr.io/nvidia": "cuda", "nvidia/cuda": "cuda", "rocm/": "rocm"}
    return next((gpu for part, gpu in names.items() if part in base), "none")
