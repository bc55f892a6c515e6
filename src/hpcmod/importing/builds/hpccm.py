"""Recipes of HPC Container Maker (HPCCM): a recipe for `hpcmod build`.

They are Python, which is read here and never run: only primitives with values that are known from the text are
converted. What becomes of each: docs/reference/import-builds.md. Source, read 2026-11:
https://nvidia.github.io/hpc-container-maker/api/hpccm/primitives/.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.importing.builds.dockerfile import convert_body, find_sources
from hpcmod.importing.builds.draft import RecipeDraft, recipe_name
from hpcmod.importing.builds.instructions import read_instructions
from hpcmod.importing.carried import shown_text
from hpcmod.importing.formats import ImportFormat, ImportOption, Watch
from hpcmod.importing.outcome import ImportedRecipe, Outcome, convert_files
from hpcmod.model.easyconfigs.static_values import read_static_values
from hpcmod.render.quote import sh

_OTHER_WAY = "write a Dockerfile with `hpccm --recipe FILE --format docker`, and import that"
_STAGE = "Stage0"
_SYSTEMS = {
    "apt": "apt-get update -y && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {names} "
    "&& rm -rf /var/lib/apt/lists/*",
    "yum": "yum install -y {names} && yum clean all",
}
"""For each package manager the command that installs packages."""


def convert_hpccm(text: str, path: Path, *, context: Path | None = None) -> ImportedRecipe:
    """Convert a recipe of HPCCM, without running it.

    Raises
    ------
    BadInputError
        If it contains anything but primitives of one stage with known values.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise BadInputError(f"{path}: not valid Python: {err}", "") from err
    known: dict[str, Any] = dict(read_static_values(text, str(path)).known)
    reading = _Reading(RecipeDraft(path, recipe_name(path.stem)), (context or path.parent).absolute(), known)
    for node in tree.body:
        reading.take(node)
    return reading.draft.finish()


@dataclass
class _Reading:
    draft: RecipeDraft
    context: Path
    known: Mapping[str, Any]

    def take(self, node: ast.stmt) -> None:
        """Convert a statement."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        targets = node.targets if isinstance(node, ast.Assign) else []
        if targets and all(isinstance(one, ast.Name) and one.id in self.known for one in targets):
            return
        call = node.value if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) else None
        target = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(target, ast.Name) and target.id != _STAGE and isinstance(call, ast.Call):
            raise BadInputError(f"line {node.lineno}: {target.id}: a recipe has one stage: {_OTHER_WAY}", "")
        if not isinstance(target, ast.Name) or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            shown = shown_text(ast.unparse(node).split("\n")[0])
            raise BadInputError(f"line {node.lineno}: {shown}: it would have to be run; {_OTHER_WAY}", "")
        name = call.func.id
        if name not in _PRIMITIVES:
            raise BadInputError(f"line {node.lineno}: the building block {name} would have to be run; {_OTHER_WAY}", "")
        arguments = self._arguments(call, name)
        where = f"line {node.lineno}: {name}"
        _PRIMITIVES[name](self, arguments, where)
        for other, value in arguments.items():
            self.draft.said.left_out.append(f"{where}: {other}={shown_text(repr(value))}: a recipe has nothing like it")

    def _arguments(self, call: ast.Call, name: str) -> dict[str, Any]:
        """Return the values of a call's arguments."""
        if call.args and not (name == "comment" and len(call.args) == 1):
            raise BadInputError(f"line {call.lineno}: {name} with arguments that have no name", "")
        found = {}
        for keyword in call.keywords:
            values = read_static_values(f"value = {ast.unparse(keyword.value)}", name, constants=self.known)
            if keyword.arg is None or "value" not in values.known:
                why = values.unknown.get("value", "** would have to be run")
                raise BadInputError(f"line {call.lineno}: {name}({keyword.arg}=...): {why}; {_OTHER_WAY}", "")
            found[keyword.arg] = values.known["value"]
        return found

    def base(self, given: dict[str, Any], where: str) -> None:
        """Convert baseimage."""
        for key in ("_distro", "_arch", "_docker_env", "_as"):
            given.pop(key, None)
        self.draft.set_base(_text(given.pop("image", ""), where))

    def shell(self, given: dict[str, Any], where: str) -> None:
        """Convert shell: commands that are joined with &&."""
        commands = _texts(given.pop("commands", []), where)
        given.pop("_app", None)
        if not given.pop("chdir", True):
            self.draft.said.changed.append(f"{where}: each step starts in its working directory")
        if commands:
            self.draft.add_command(" && \\\n".join(commands), ("/bin/sh", "-c"), where)

    def environment(self, given: dict[str, Any], where: str) -> None:
        """Convert environment."""
        given.pop("_export", None)
        for name, value in _table(given.pop("variables", {}), where).items():
            self.draft.set_variable(name, value, None if "$" in value else value)

    def copy(self, given: dict[str, Any], where: str) -> None:
        """Convert copy: src and dest, or files."""
        if given.get("_from"):
            raise BadInputError(f"{where} from another stage: {_OTHER_WAY}", "")
        pairs = list(_table(given.pop("files", {}), where).items())
        if "src" in given:
            sources = given.pop("src")
            place = _text(given.pop("dest", ""), where)
            listed = _texts(sources, where) if isinstance(sources, list) else [_text(sources, where)]
            pairs += [(one, place) for one in listed]
        if given.pop("_chown", ""):
            self.draft.said.changed.append(f"{where}: files in a SIF belong to root")
        for key in ("_mkdir", "_post", "_app"):
            given.pop(key, None)
        for source, place in pairs:
            self.draft.add_copy(find_sources(self.context, source, where), place, where, like="COPY")

    def directory(self, given: dict[str, Any], where: str) -> None:
        """Convert workdir."""
        self.draft.directory = _text(given.pop("directory", ""), where)
        if not self.draft.directory.startswith("/"):
            raise BadInputError(f"{where}: expected an absolute path", "")

    def argument(self, given: dict[str, Any], where: str) -> None:
        """Convert arg."""
        for name, value in _table(given.pop("variables", {}), where).items():
            self.draft.add_argument(name, value)

    def packages(self, given: dict[str, Any], where: str) -> None:
        """Convert packages: those of the package manager that the base image has."""
        both = _texts(given.pop("ospackages", []), where)
        commands = []
        for system, command in _SYSTEMS.items():
            names = [*_texts(given.pop(system, []), where), *both]
            if names:
                line = command.format(names=" ".join(map(sh, names)))
                commands.append(f"if command -v {system} >/dev/null; then {line}; exit; fi")
        if commands:
            commands.append("echo 'no package manager found' >&2; exit 1")
            self.draft.add_command("\n".join(commands), ("/bin/sh", "-c"), where)

    def raw(self, given: dict[str, Any], where: str) -> None:
        """Convert raw: its lines for Docker."""
        text = _text(given.pop("docker", ""), where)
        if "singularity" in given:
            self.draft.said.notes.append(f"{where}: the lines for Docker are used, not those for Singularity")
            given.pop("singularity")
        convert_body(read_instructions(text), self.draft, self.context)

    def leave_out(self, given: dict[str, Any], where: str) -> None:
        """Report what a recipe cannot have."""
        self.draft.said.left_out.append(f"{where}: {shown_text(repr(given))}: {_LEFT_OUT[where.rpartition(' ')[2]]}")
        given.clear()

    def user(self, given: dict[str, Any], where: str) -> None:
        """Report a user."""
        self.draft.said.changed.append(f"{where} {given.pop('user', '')}: commands of the build run as root")

    def nothing(self, given: dict[str, Any], _: str) -> None:
        """Skip a comment."""
        given.clear()


_LEFT_OUT = {
    "label": "hpcmod build writes labels of its own",
    "runscript": "name the command in the easyconfig: wrapped_commands",
}
_PRIMITIVES: Mapping[str, Callable[[_Reading, dict[str, Any], str], None]] = {
    "baseimage": _Reading.base,
    "shell": _Reading.shell,
    "environment": _Reading.environment,
    "copy": _Reading.copy,
    "workdir": _Reading.directory,
    "arg": _Reading.argument,
    "packages": _Reading.packages,
    "raw": _Reading.raw,
    "label": _Reading.leave_out,
    "runscript": _Reading.leave_out,
    "user": _Reading.user,
    "comment": _Reading.nothing,
}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise BadInputError(f"{where}: {shown_text(repr(value))} is not a string", "")
    return value


def _texts(values: Any, where: str) -> Sequence[str]:
    if not isinstance(values, (list, tuple)):
        raise BadInputError(f"{where}: {shown_text(repr(values))} is not a list of strings", "")
    return [_text(one, where) for one in values]


def _table(values: Any, where: str) -> dict[str, str]:
    if not isinstance(values, dict) or not all(isinstance(one, (str, int, float)) for one in values.values()):
        raise BadInputError(f"{where}: {shown_text(repr(values))} is not a table of strings", "")
    return {_text(name, where): str(value) for name, value in values.items()}


def import_hpccm(paths: Iterable[Path], *, context: Path | None = None) -> list[Outcome]:
    """Convert recipes of HPCCM, and all below directories."""
    return convert_files(paths, (".py",), lambda text, path: [convert_hpccm(text, path, context=context)])


def _convert(paths: Iterable[Path], _: Watch, *, context: str | None = None) -> list[Outcome]:
    return import_hpccm(paths, context=Path(context) if context else None)


FORMAT = ImportFormat(
    "Convert recipes of HPC Container Maker (HPCCM) to recipes of `hpcmod build`; they are never run.",
    _convert,
    examples=("recipe.py --dry-run", "recipe.py --output recipes"),
    options=(ImportOption("context", "Directory that copy refers to (default: the recipe's).", metavar="DIR"),),
    output="recipes",
)
