"""Easyconfigs in LUMI's style, which copy a SIF with MakeCp and write scripts by shell: read without running them.

Source: LUMI-EasyBuild-containers, 70 easyconfigs of 2023 to 2025, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hpcmod.check.easyconfigs.rules import binds_of
from hpcmod.errors import BadInputError
from hpcmod.importing.formats import ImportFormat
from hpcmod.importing.outcome import (
    ImportedEasyconfig,
    Outcome,
    choose_commands,
    convert_files,
    secure_homepage,
    settle_names,
    shorten,
)
from hpcmod.model.easyconfigs.easyconfig_text import CONSTANTS, fill_templates, templates_of
from hpcmod.model.easyconfigs.static_values import StaticValues, read_static_values
from hpcmod.model.plan import WELL_KNOWN_COMMANDS
from hpcmod.render.easyconfig import EasyconfigText

_OURS = ("ContainerModule", "ContainerBuild")
_SET_BY_OURS = re.compile(
    r"SIF\w*|RUNSCRIPTS\w*|CONTAINERROOT|(?:SINGULARITY|APPTAINER)_BIND(?:PATH)?"
    r"|(?:SINGULARITY|APPTAINER)ENV_(?:PREPEND_PATH|WITH_\w+|CONDA_\w+|VIRTUAL_ENV)"
)
"""Variables that hpcmod's modules make unnecessary: docs/reference/module.md."""

_LINK = re.compile(r"ln\s+-s\S*\s+\S*python\S*\s+\S*/bin/(\S+)")
_FOOTER = re.compile(
    r"^\s*(?:--.*|create_container_vars\s*\(.*\)\s*|conflict\s*\(\s*'singularity-AI-bindings'\s*\)\s*)?$"
)
_SAID_BY_NAME = (
    *("dependencies", "builddependencies", "modextrapaths", "modaliases", "modloadmsg", "modtclfooter"),
    *("sanity_check_commands", "patches", "exts_list", "components"),
)
_CLASSES = (
    "ai", "bio", "chem", "data", "devel", "lang", "lib", "math", "mpi", "numlib", "phys", "system", "tools", "vis",
)  # fmt: skip


def import_lumi_eb(paths: Iterable[Path]) -> tuple[Outcome, ...]:
    """Convert easyconfigs, and all below directories; of two that make one module, keep the matching file name."""
    outcomes = convert_files(paths, (".eb",), lambda text, path: [convert_easyconfig(text, path)])
    return settle_names(sorted(outcomes, key=lambda one: isinstance(one, ImportedEasyconfig) and not _named_right(one)))


def _named_right(one: ImportedEasyconfig) -> bool:
    return one.origin.endswith(one.easyconfig.file_name)


def convert_easyconfig(text: str, path: Path) -> ImportedEasyconfig:
    """Convert an easyconfig.

    Raises
    ------
    BadInputError
        If it does not install a SIF, or what it installs cannot be determined without running it.
    """
    read = read_static_values(text, str(path), constants=CONSTANTS)
    values = _filled(read)
    if values.get("easyblock") in _OURS:
        raise BadInputError(f"{path}: is already an hpcmod easyconfig", "")
    sif = _find_sif(read, values)
    description, of_description = _describe(values)
    homepage, of_homepage = secure_homepage(_text(values, "homepage"))
    commands, of_commands = _commands(values)
    easyconfig = EasyconfigText(
        name=_needed(read, values, "name"),
        version=_needed(read, values, "version"),
        versionsuffix=_needed(read, values, "versionsuffix") if "versionsuffix" in text else "",
        image=sif,
        description=description,
        homepage=homepage,
        download_instructions=f"Copy {sif} to a source path, or to one of the site's image directories",
        wrapped_commands=commands,
        moduleclass=values["moduleclass"] if values.get("moduleclass") in _CLASSES else "ai",
    )
    left_out = [*of_description, *of_homepage, *of_commands, *_left_out(read, values)]
    misnamed = path.name != easyconfig.file_name
    notes = [f"the file is called {path.name}, but makes {easyconfig.module}"] if misnamed else []
    return ImportedEasyconfig(str(path), easyconfig, tuple(left_out), tuple(notes))


def _filled(read: StaticValues) -> dict[str, Any]:
    """Fill in EasyBuild's templates in strings and lists of strings."""
    templates = templates_of(read.known)
    return {name: _fill(value, templates) for name, value in read.known.items() if not name.startswith("local_")}


def _fill(value: Any, templates: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return fill_templates(value, templates)
    return [_fill(one, templates) for one in value] if isinstance(value, list) else value


def _needed(read: StaticValues, values: Mapping[str, Any], name: str) -> str:
    if name in read.unknown:
        raise BadInputError(f"its {name} cannot be determined without running it: {read.unknown[name]}", "")
    if not isinstance(values.get(name), str):
        raise BadInputError(f"{name} is missing", "")
    return str(values[name])


def _find_sif(read: StaticValues, values: Mapping[str, Any]) -> str:
    if "sources" in read.unknown:
        raise BadInputError(f"its sources cannot be determined without running it: {read.unknown['sources']}", "")
    sources = values.get("sources")
    names = [
        fill_templates(name, templates_of(read.known))
        for one in (sources if isinstance(sources, list) else ())
        if isinstance(name := one.get("filename") if isinstance(one, dict) else one, str)
    ]
    found = [name for name in names if name.endswith(".sif")]
    if len(found) != 1:
        shown = ", ".join(names)[:120] or "nothing"
        raise BadInputError(f"its sources must be a single SIF, found: {shown}", "")
    if "/" in found[0] or "%(" in found[0]:
        raise BadInputError(f"its source {found[0][:80]!r} is not a file name", "")
    return found[0]


def _describe(values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the description for `module whatis`, else the first paragraph of the help."""
    whatis = values.get("whatis")
    lines = [one for one in whatis if isinstance(one, str)] if isinstance(whatis, list) else []
    brief = next((one.partition(":")[2] for one in lines if one.lower().startswith("description:")), "")
    paragraphs = re.split(r"\n\s*\n", _text(values, "description").strip())
    line, said = shorten(brief or paragraphs[0])
    more = len(paragraphs) > 1 or bool(brief)
    return line, [*said, *(["the long help text, because the module generates its own"] if more else [])]


def _commands(values: Mapping[str, Any]) -> tuple[tuple[str, ...], list[str]]:
    """Return the commands that the recipe links to its wrapper; none if hpcmod wraps them by default."""
    scripts = values.get("postinstallcmds")
    lines = [one for one in scripts if isinstance(one, str)] if isinstance(scripts, list) else []
    linked = [name for line in lines for name in _LINK.findall(line)]
    more = [
        name for name in linked if not re.fullmatch(r"(python|pip)[\d.]*", name) and name not in WELL_KNOWN_COMMANDS
    ]
    if not more:
        return (), []
    return choose_commands(["python", "python3", "pip", "pip3", *linked])


def _left_out(read: StaticValues, values: Mapping[str, Any]) -> Iterator[str]:
    given = values.get("modextravars")
    extra = {str(name): value for name, value in given.items()} if isinstance(given, dict) else {}
    variables = [name for name in extra if not _SET_BY_OURS.fullmatch(name)]
    if variables:
        yield f"module variables (set them in the site profile if needed): {', '.join(variables)[:200]}"
    texts = {name: value for name, value in extra.items() if isinstance(value, str)}
    binds = [one for one in binds_of(texts, _text(values, "modluafooter")) if "%(" not in one]
    if binds:
        yield f"binds (add them to the site profile if needed): {', '.join(binds)[:300]}"
    scripts = values.get("postinstallcmds")
    if isinstance(scripts, list) and scripts:
        yield f"{len(scripts)} shell commands in postinstallcmds, replaced by hpcmod's scripts"
    footer = [line.strip() for line in _text(values, "modluafooter").splitlines() if not _FOOTER.match(line)]
    if footer:
        yield f"Lua of the module: {'; '.join(footer)[:120]}"
    yield from (f"{name} ({_count(values[name])})" for name in _SAID_BY_NAME if values.get(name))
    unread = [name for name in read.unknown if not name.startswith(("local_", "_"))]
    if unread:
        yield f"parameters that only running it would determine: {', '.join(unread)[:120]}"


def _count(value: Any) -> str:
    return f"{len(value)} entries" if isinstance(value, (list, dict)) else "set"


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


FORMAT = ImportFormat(
    "Convert easyconfigs in LUMI's style (MakeCp and shell scripts), without running them.",
    lambda paths, _: import_lumi_eb(paths),
    examples=("LUMI-EasyBuild-containers/easybuild/easyconfigs --output ours", "old.eb --dry-run"),
)
