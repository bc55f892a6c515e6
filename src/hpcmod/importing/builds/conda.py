"""Environments of conda, and the command lines of cotainr and tykky: a recipe for `hpcmod build` that runs conda.

What becomes of each key and option: docs/reference/import-builds.md. Source for cotainr, read 2026-11:
https://pypi.org/project/cotainr/.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcmod.check.easyconfigs.files import read_recipe
from hpcmod.check.jobs.reading.options import Option, read_options
from hpcmod.check.jobs.reading.words import Word, read_shell_commands
from hpcmod.errors import BadInputError
from hpcmod.importing.builds.draft import RecipeDraft, recipe_name
from hpcmod.importing.carried import shown_text
from hpcmod.importing.formats import ImportFormat, ImportOption, Watch
from hpcmod.importing.outcome import ImportedRecipe, Outcome, convert_files
from hpcmod.model.documents import load_yaml
from hpcmod.model.recipes.build_plan import BUILD_ROOT
from hpcmod.render.quote import sh

SUFFIXES = ("environment.yml", "environment.yaml", "env.yml", "env.yaml")

DEFAULT_BASE = "docker.io/condaforge/miniforge3"
"""Base image with conda; the tag is the user's to choose."""

INSTALLER = "https://github.com/conda-forge/miniforge/releases/latest/download/Miniforge3-Linux-x86_64.sh"
"""Installer for base images without conda; `--set installer=URL` names another one."""

_PLACE = "/opt/conda"
_BASH = ("/bin/bash", "-c")
_PIP = "pip install --no-cache-dir -r"
_READ = ("name", "channels", "dependencies", "prefix", "variables", "category", "platforms")
_SAME = frozenset(("accept-licenses", "verbose", "quiet", "log-to-file", "no-color", "mamba", "uv", "v", "q"))
_FLAGS = {"accept-licenses", "verbose", "quiet", "log-to-file", "no-color", "mamba", "uv"}
_INSTALL = f"""\
set -euo pipefail
export PATH="{_PLACE}/bin:$PATH"
if ! command -v conda >/dev/null; then
    file={BUILD_ROOT}/miniforge.sh
    if command -v curl >/dev/null; then curl -fsSL -o "$file" "$INSTALLER"; else wget -qO "$file" "$INSTALLER"; fi
    bash "$file" -b -p {_PLACE}
    rm -f "$file"
fi
"""


def convert_environment(text: str, path: Path, *, base: str = "") -> ImportedRecipe:
    """Convert an environment file of conda.

    Raises
    ------
    BadInputError
        If it is not valid, or installs files of this machine.
    """
    tree = _parse(text, path)
    draft = RecipeDraft(path, recipe_name(str(tree.get("name") or path.absolute().parent.name)))
    _set_base(draft, base)
    _add_environment(draft, tree, path)
    return _finish(draft)


def convert_commands(text: str, path: Path, *, base: str = "") -> Iterator[ImportedRecipe]:
    """Yield a recipe for each `cotainr build` and `conda-containerize new` of a shell script.

    Raises
    ------
    BadInputError
        If there is none, or one cannot be described.
    """
    found = False
    for command in read_shell_commands(text):
        names = [word.plain.rpartition("/")[2] for word in command.words]
        if names[:2] == ["cotainr", "build"]:
            yield _convert_cotainr(command.words[2:], path, base)
        elif names[:2] == ["conda-containerize", "new"]:
            yield _convert_tykky(command.words[2:], path, base)
        elif names[:1] in (["pip-containerize"], ["conda-containerize"], ["wrap-container"], ["wrap-install"]):
            cure = "for Python packages use hpcmod bake CONTAINER -r FILE -o OUT.sif"
            raise BadInputError(f"line {command.words[0].line}: {' '.join(names[:2])}: {cure}", "")
        else:
            continue
        found = True
    if not found:
        raise BadInputError("it has no line `cotainr build` or `conda-containerize new`", "")


def _parse(text: str, path: Path) -> Mapping[str, Any]:
    tree = load_yaml(text, str(path))
    if not isinstance(tree, dict) or not isinstance(tree.get("dependencies"), list):
        raise BadInputError(f"{path}: it has no list `dependencies`", "")
    return tree


def _set_base(draft: RecipeDraft, base: str) -> None:
    draft.set_base((base or DEFAULT_BASE).removeprefix("docker://"))
    draft.add_argument("INSTALLER", INSTALLER)
    if base:
        draft.said.notes.append(
            "if the base image has no conda, the installer of the setting `installer` is downloaded unchecked"
        )


def _add_environment(draft: RecipeDraft, tree: Mapping[str, Any], path: Path) -> None:
    """Add the step that creates an environment, and the variables of the image."""
    files = [path, *_requirement_files(tree["dependencies"], path)]
    place = f"{_PLACE}/envs/{draft.name}"
    name = draft.add_input(files)
    create = f"conda env create --quiet --prefix {sh(place)} --file {sh(f'{name}/{path.name}')}"
    draft.add_command(
        f"{_INSTALL}cd {sh(name)}\n{create}\nconda clean --all --yes --quiet\n",
        ("/bin/bash", "-c"),
        f"{path.name}: dependencies",
    )
    draft.set_variable("PATH", f"{place}/bin:$PATH", None)
    draft.set_variable("CONDA_PREFIX", place, place)
    variables = tree.get("variables") or {}
    for variable, value in variables.items() if isinstance(variables, dict) else ():
        draft.set_variable(str(variable), str(value), None if "$" in str(value) else str(value))
    if tree.get("prefix"):
        draft.said.changed.append(f"prefix: the environment is in {place}")
    for key in tree:
        if key not in _READ:
            draft.said.left_out.append(f"the key {shown_text(str(key))}: conda env create does not document it")


def _requirement_files(dependencies: Sequence[Any], path: Path) -> Iterator[Path]:
    """Yield the requirement files that the list for pip names.

    Raises
    ------
    BadInputError
        If it names something else on this machine, or a file is missing.
    """
    for one in dependencies:
        if not isinstance(one, (str, dict)):
            raise BadInputError(f"the dependency {one!r} is neither a string nor a list for pip", "")
        for line in one.get("pip") or () if isinstance(one, dict) else ():
            text = str(line).strip()
            named = re.fullmatch(r"(?:-r|--requirement|-c|--constraint)[ =]*(\S+)", text)
            if named:
                yield _beside(path, named[1])
            elif re.match(r"-e\b|--editable|\.{1,2}(?:/|$)|/|file:", text) or "file://" in text:
                raise BadInputError(
                    f"the package {shown_text(text)} is a directory of this machine: make a wheel of it", ""
                )


def _beside(path: Path, name: str) -> Path:
    file = path.absolute().parent / name
    if "/" in name or not file.is_file():
        raise BadInputError(f"{name!r} is not a file beside {path.name}", "")
    return file


def _convert_cotainr(words: Sequence[Word], path: Path, base: str) -> ImportedRecipe:
    """Convert `cotainr build IMAGE --base-image=... --conda-env=...`."""
    options, places = _split(words)
    given = {option.name: option.value for option in options}
    image = given.pop("base-image", "") or base
    system = given.pop("system", "")
    if not image:
        what = (
            f"--system={system}: its base image is in cotainr's own configuration"
            if system
            else "it names no base image"
        )
        raise BadInputError(f"cotainr build: {what}; give it: --base IMAGE", "")
    draft = RecipeDraft(path, recipe_name(Path(places[0]).stem if places else path.stem))
    if system:
        draft.said.changed.append(f"--system={system}: the base image is {image}")
    _set_base(draft, image)
    environment = given.pop("conda-env", "")
    if not environment:
        raise BadInputError("cotainr build without --conda-env: use hpcmod fetch for the base image", "")
    file = path.absolute().parent / environment
    _add_environment(draft, _parse(read_recipe(file), file), file)
    _report_options(given, draft)
    return _finish(draft)


def _convert_tykky(words: Sequence[Word], path: Path, base: str) -> ImportedRecipe:
    """Convert `conda-containerize new --prefix DIR environment.yml`."""
    options, places = _split(words)
    given = {option.name: option.value for option in options}
    if len(places) != 1:
        raise BadInputError("conda-containerize new: expected one environment file", "")
    file = path.absolute().parent / places[0]
    prefix = given.pop("prefix", "")
    draft = RecipeDraft(path, recipe_name(Path(prefix).name or file.parent.name))
    _set_base(draft, base)
    if prefix:
        draft.said.changed.append(f"--prefix {shown_text(prefix)}: install the image as a module: hpcmod import sif")
    _add_environment(draft, _parse(read_recipe(file), file), file)
    for option, command in (("r", _PIP), ("requirement", _PIP), ("post-install", "bash -e")):
        if option in given:
            extra = _beside(file, given.pop(option))
            draft.add_command(f"{command} {sh(f'{draft.add_input([extra])}/{extra.name}')}", _BASH, f"--{option}")
    _report_options(given, draft)
    return _finish(draft)


def _split(words: Sequence[Word]) -> tuple[list[Option], list[str]]:
    """Return options, wherever they are, and the other words."""
    options: list[Option] = []
    places: list[str] = []
    left = list(words)
    while left:
        found, rest = read_options(left, {"r": "r", "w": "wrapper-paths"}, _FLAGS, {"v": "verbose", "q": "quiet"})
        options += found
        places += [word.plain for word in rest[:1]]
        left = list(rest[1:])
    if any("$" in text for text in (*places, *(one.value for one in options))):
        raise BadInputError("its words have variables: write their values", "")
    return options, places


def _report_options(given: Mapping[str, str], draft: RecipeDraft) -> None:
    for name, value in given.items():
        if name not in _SAME:
            reason = "a recipe has nothing like it"
            if name == "wrapper-paths":
                reason = "name the commands in the easyconfig: wrapped_commands"
            draft.said.left_out.append(f"the option --{shown_text(name)} {shown_text(value)}: {reason}")


def _finish(draft: RecipeDraft) -> ImportedRecipe:
    draft.said.notes.append("conda chooses the versions when the image is built, where the file leaves a choice")
    return draft.finish()


def import_conda(paths: Iterable[Path], *, base: str = "") -> list[Outcome]:
    """Convert environment files, and all below directories; other files are shell scripts."""

    def convert(text: str, path: Path) -> list[Outcome]:
        if path.suffix in (".yml", ".yaml"):
            return [convert_environment(text, path, base=base)]
        return list(convert_commands(text, path, base=base))

    return convert_files(paths, SUFFIXES, convert)


def _convert(paths: Iterable[Path], _: Watch, *, base: str | None = None) -> list[Outcome]:
    return import_conda(paths, base=base or "")


FORMAT = ImportFormat(
    "Convert environments of conda, and scripts with cotainr or tykky, to recipes of `hpcmod build`.",
    _convert,
    examples=("environment.yml --output recipes", "build.sh --base docker.io/opensuse/leap:15.6"),
    options=(ImportOption("base", "Base image (default: Miniforge's, or that of the command).", metavar="IMAGE"),),
    output="recipes",
)
