"""Easyconfigs in LUMI's style, which copy a SIF with MakeCp and write scripts by shell: read without running them.

Source: LUMI-EasyBuild-containers, 70 easyconfigs of 2023 to 2025, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.importing.formats import ImportFormat
from hpcmod.importing.lumi_scripts import ShellCommands, sort_shell_commands
from hpcmod.importing.outcome import (
    Findings,
    ImportedEasyconfig,
    Outcome,
    choose_commands,
    convert_files,
    full_description,
    secure_homepage,
    settle_names,
    shell_text,
    shown_text,
)
from hpcmod.modules.values.easyconfig import EasyconfigText, ParameterValue, SifOrigin, Templated
from hpcmod.modules.values.easyconfig_text import CONSTANTS, fill_templates, fill_values, templates_of
from hpcmod.modules.values.parameters import MODULE_CLASSES
from hpcmod.modules.values.spec import Commands, why_no_variable
from hpcmod.modules.values.static_values import StaticValues, read_static_values
from hpcmod.modules.values.written_binds import LUA_BINDS, LUA_STRING, binds_of

_OURS = ("ContainerModule", "ContainerBuild")
_OUR_VARIABLES = re.compile(r"SIF\w*|RUNSCRIPTS\w*|CONTAINERROOT")
"""Variables that hpcmod's modules set to the same: docs/reference/module.md."""

_OUR_CONTAINER_VARIABLES = re.compile("WITH_(?:CONDA|VENV|CONDA_VENV)|CONDA_(?:PREFIX|DEFAULT_ENV)|VIRTUAL_ENV")
_CONTAINER_VARIABLE = re.compile(r"(?:SINGULARITY|APPTAINER)ENV_(?P<name>\w+)")
_BINDS = re.compile(r"(?:SINGULARITY|APPTAINER)_BIND(?:PATH)?")
_CREATES_VARIABLES = re.compile(rf"create_container_vars\s*\((?:{LUA_STRING}|[^()'\"])*\)[ \t]*;?")
_CALLS = re.compile(r"(?<![\w.:])([A-Za-z_][\w.:]*)\s*\(")
_LUA_WORDS = re.compile("and|or|not|if|elseif|while|until|return|in|function|then|do|else")
_LUA_CALLS = re.compile(
    "setenv|pushenv|unsetenv|prepend_path|append_path|remove_path|set_alias|conflict|family|prereq|depends_on|load"
    "|try_load|isloaded|mode|add_property|LmodMessage|LmodError|pathJoin|os[.]getenv|isFile|isDir|whatis|help|ipairs"
    "|pairs|string[.]format|tostring"
)
"""Functions that every Lmod has, of those that easyconfigs use."""

_PIP_ONLY = re.compile(r"^\s*(?:pip\S*|python\S* -m pip)\s+install\b[^;&|]*$")
_PIP = re.compile(r"\bpip\S*\s+install\b")
_CARRIED = re.compile(
    "docurls|docpaths|usage|examples|citing|site_contacts|upstream_contacts|whatis"
    "|modextrapaths|modaliases|modloadmsg|modunloadmsg|modtclfooter|software_license_urls"
)
"""Parameters that ContainerModule takes as they are."""

_READ = re.compile(
    "name|version|versionsuffix|homepage|description|sources|source_urls|checksums|download_instructions|moduleclass"
    "|modextravars|modluafooter|postinstallcmds|sanity_check_commands|sanity_check_paths"
    "|easyblock|toolchain|skipsteps|files_to_copy|start_dir|unpack_sources"
)
"""Parameters that are read here, and those that say how MakeCp copies the image."""

_CURES = {
    "dependencies": "if a module of the site is needed, add it",
    "builddependencies": "nothing is built",
    "patches": "an image cannot be patched: build one with hpcmod build",
    "exts_list": "install them into the container: hpcmod add",
    "components": "make an easyconfig for each",
}


def import_lumi_eb(paths: Iterable[Path]) -> tuple[Outcome, ...]:
    """Convert easyconfigs, and all below directories; of two that make one module, keep the matching file name."""

    def is_named_otherwise(outcome: Outcome) -> bool:
        return isinstance(outcome, ImportedEasyconfig) and not outcome.origin.endswith(outcome.easyconfig.file_name)

    outcomes = convert_files(paths, ".eb", lambda text, path: [convert_easyconfig(text, path)])
    return settle_names(sorted(outcomes, key=is_named_otherwise))


def convert_easyconfig(text: str, path: Path) -> ImportedEasyconfig:
    """Convert an easyconfig.

    Raises BadInputError if it does not install a SIF, or what it installs cannot be determined without running it.
    """
    read = read_static_values(text, str(path), constants=CONSTANTS)
    templates = templates_of(read.known)
    named = {name: value for name, value in read.known.items() if not name.startswith("local_")}
    values = {name: fill_values(value, templates) for name, value in named.items()}
    if values.get("easyblock") in _OURS:
        raise BadInputError(f"{path}: is already an hpcmod easyconfig", "")
    if ".sif" not in text:
        block = values.get("easyblock") or "of its name"
        raise BadInputError(f"it has no container image: EasyBuild installs it with the easyblock {block}", "")
    sif = _find_sif(read, values)
    scripts = sort_shell_commands(_strings(values.get("postinstallcmds")))
    if scripts.builds:
        raise BadInputError(
            f"{path}: builds its image when it is installed: build the definition file with `hpcmod build`, and use "
            f"hpcmod import sif. The command is {scripts.builds!r}",
            "",
        )
    said = Findings()
    how = f"Copy {sif} to a source path, or to one of the site's image directories"
    easyconfig = EasyconfigText(
        name=_needed(read, values, "name"),
        version=_needed(read, values, "version"),
        versionsuffix=_needed(read, values, "versionsuffix") if "versionsuffix" in text else "",
        image=sif,
        description=full_description(_text(values, "description"), said),
        homepage=secure_homepage(_text(values, "homepage"), said),
        sif=SifOrigin(tuple(_strings(values.get("source_urls"))), _text(values, "download_instructions") or how),
        checksum=_checksum(values),
        wrapped_commands=_commands(read, scripts, said),
        moduleclass=_module_class(_text(values, "moduleclass"), said),
    )
    footer = _text(read.known, "modluafooter")
    if scripts.replaced:
        said.changed.append(f"hpcmod's own scripts replace those of the recipe: {', '.join(scripts.replaced)}")
    variables, environment, binds = _variables(read.known, footer, said)
    parameters = [
        (name, _templated(value)) for name, value in read.known.items() if _CARRIED.fullmatch(name) and _is_plain(value)
    ]
    parameters += [("modextravars", variables)] if variables else []
    parameters += _code(footer, said)
    parameters += _checks(read.known, said)
    parameters += [("postinstallcmds", [Templated(command) for command in scripts.kept])] if scripts.kept else []
    parameters += [("user_packages", [Templated(command) for command in scripts.packages])] if scripts.packages else []
    for command in scripts.others:
        if not _PIP_ONLY.search(command):
            where = " (its packages are in user_packages)" if scripts.packages and _PIP.search(command) else ""
            said.left_out.append(f"the shell command after the installation: {shown_text(command)}{where}")
    said.left_out += _left_out(read, values)
    if path.name != easyconfig.file_name:
        said.notes.append(f"the file is called {path.name}, but makes {easyconfig.module}: correct its versionsuffix")
    easyconfig = replace(easyconfig, environment=environment, bind_paths=binds, parameters=tuple(parameters))
    return said.outcome(path, easyconfig)


def _module_class(name: str, said: Findings) -> str:
    """Return a class that every EasyBuild has."""
    if name and name not in MODULE_CLASSES:
        said.changed.append(
            f"moduleclass: 'ai' instead of {shown_text(repr(name))}, which EasyBuild itself does not have"
        )
    return name if name in MODULE_CLASSES else "ai"


def _needed(read: StaticValues, values: Mapping[str, Any], name: str) -> str:
    if name in read.unknown:
        raise BadInputError(f"its {name} cannot be determined without running it: {read.unknown[name]}", "")
    if not isinstance(values.get(name), str):
        raise BadInputError(f"{name} is missing", "")
    return str(values[name])


def _find_sif(read: StaticValues, values: Mapping[str, Any]) -> str:
    if "sources" in read.unknown:
        raise BadInputError(f"its sources cannot be determined without running it: {read.unknown['sources']}", "")
    names = _source_names(values)
    images = [name for name in names if name.endswith(".sif")]
    if len(images) != 1:
        shown = ", ".join(names)[:120] or "nothing"
        raise BadInputError(f"its sources must be a single SIF, found: {shown}", "")
    if "/" in images[0] or "%(" in images[0]:
        raise BadInputError(f"its source {images[0][:80]!r} is not a file name", "")
    return images[0]


def _source_names(values: Mapping[str, Any]) -> list[str]:
    """Return the file names of the sources, each of which may be a table."""
    sources = values.get("sources")
    listed = sources if isinstance(sources, list) else []
    return _strings([source.get("filename") if isinstance(source, dict) else source for source in listed])


def _checksum(values: Mapping[str, Any]) -> str:
    """Return the checksum of the image, which is the first source in all of these easyconfigs."""
    checksum = next(iter(_strings(values.get("checksums"))), "")
    return checksum if re.fullmatch("[0-9a-f]{64}", checksum) else ""


def _commands(read: StaticValues, scripts: ShellCommands, said: Findings) -> Commands | None:
    """Return the commands that the recipe wraps; None, the default ones, if they cannot be determined."""
    if "postinstallcmds" in read.unknown:
        return None
    commands = choose_commands({name: (name,) for name in scripts.wrapped}, said)
    if commands:
        said.changed.append("the commands on PATH are hpcmod's wrappers, and work in the container too")
    return commands


def _variables(
    known: Mapping[str, Any], footer: str, said: Findings
) -> tuple[dict[str, ParameterValue], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the module's variables, those of the container, and the binds."""
    given = known.get("modextravars")
    extra = given if isinstance(given, dict) else {}
    templates = templates_of(known)
    module: dict[str, ParameterValue] = {}
    container: list[tuple[str, str]] = []
    for key, raw in extra.items():
        name, value = str(key), fill_templates(raw, templates) if isinstance(raw, str) else raw
        inside = _CONTAINER_VARIABLE.fullmatch(name)
        if not re.fullmatch("[A-Za-z_]\\w*", name) or not isinstance(value, (str, int, float)):
            said.left_out.append(f"the variable {name}, whose name or value is not valid: {value!r}")
        elif _OUR_VARIABLES.fullmatch(name) or _BINDS.fullmatch(name):
            continue
        elif inside and inside["name"] == "PREPEND_PATH":
            _container_path(str(value), said)
        elif inside and _OUR_CONTAINER_VARIABLES.fullmatch(inside["name"]):
            said.changed.append(f"{name}: hpcmod's module sets its own value, or the image does")
        elif inside:
            _container_variable(inside["name"], str(value), container, said)
        else:
            module[name] = Templated(raw) if isinstance(raw, str) else str(raw)
    texts = {str(name): fill_templates(value, templates) for name, value in extra.items() if isinstance(value, str)}
    binds = tuple(bind for bind in binds_of(texts, footer) if "%(" not in bind)
    return module, tuple(container), binds


def _container_path(value: str, said: Findings) -> None:
    """Report the directories on the container's PATH that hpcmod's module does not put there."""
    ours = re.compile(r"/runscripts|/user-software/venv/[^/]+/bin|/opt/[^/]+/envs/[^/]+/bin")
    other = [directory for directory in value.split(":") if directory and not ours.fullmatch(directory)]
    if other:
        text = ":".join(other)
        cure = f"after loading the module: export SINGULARITYENV_PREPEND_PATH=$SINGULARITYENV_PREPEND_PATH:{text}"
        said.left_out.append(f"{text} on PATH in the container; {cure}")
    if re.search(r"^:|::|:$", value):
        said.changed.append("the empty element of PATH in the container, which means the current directory, is gone")


def _container_variable(name: str, value: str, container: list[tuple[str, str]], said: Findings) -> None:
    reason = why_no_variable(name, value)
    if reason and value:
        cure = f"; after loading the module: export SINGULARITYENV_{name}={shell_text(value)}"
        said.left_out.append(f"the variable {name} of the container: {reason}{cure}")
    elif reason:
        said.changed.append(f"the variable {name} of the container is not emptied: {reason}")
    else:
        container.append((name, value))


def _code(footer: str, said: Findings) -> Iterator[tuple[str, ParameterValue]]:
    """Yield the Lua code of the module if every Lmod can run it, without what hpcmod's module does itself."""
    rest = LUA_BINDS.sub("", _CREATES_VARIABLES.sub("", footer))
    rest = "\n".join(line.rstrip() for line in rest.splitlines() if line.strip())
    code = re.sub(rf"--\[\[.*?(?:\]\]|\Z)|--[^\n]*|{LUA_STRING}", "", rest, flags=re.DOTALL)
    if not code.strip():
        return
    called = {name for name in _CALLS.findall(code) if not _LUA_WORDS.fullmatch(name)}
    unknown = sorted(name for name in called if not _LUA_CALLS.fullmatch(name))
    if unknown:
        why = f"calls {', '.join(unknown)}, which other machines may lack"
        said.left_out.append(f"Lua code of the module, which {why}: {rest}")
        return
    yield "modluafooter", Templated(f"{rest}\n")


def _checks(known: Mapping[str, Any], said: Findings) -> Iterator[tuple[str, ParameterValue]]:
    """Yield the sanity checks that need nothing that is lost."""
    given = known.get("sanity_check_commands")
    commands = list(given) if isinstance(given, (list, tuple)) else []
    lost = [command for command in commands if not isinstance(command, str)]
    kept = [Templated(command) for command in commands if isinstance(command, str)]
    if kept:
        yield "sanity_check_commands", kept
    said.left_out += [f"the sanity check {command!r}: write it as a string" for command in lost]
    if known.get("sanity_check_paths"):
        said.changed.append("sanity_check_paths: hpcmod checks its own files")


def _left_out(read: StaticValues, values: Mapping[str, Any]) -> Iterator[str]:
    for name in _source_names(values):
        if not name.endswith(".sif"):
            yield f"hpcmod installs the image alone, so keep other sources in a directory for documents: {name}"
    for name, value in values.items():
        if _CARRIED.fullmatch(name) and value and not _is_plain(value):
            yield f"{name}, whose value is not plain: {shown_text(repr(value))}"
        elif not (_CARRIED.fullmatch(name) or _READ.fullmatch(name) or name.startswith("_")) and value:
            cure = f" ({_CURES[name]})" if name in _CURES else ""
            yield f"{name}: {shown_text(repr(value))}{cure}"
    for name, reason in read.unknown.items():
        if not name.startswith(("local_", "_")):
            yield f"{name}, which only running the file would determine: {reason}"


def _is_plain(value: object) -> bool:
    """Return whether a value consists of strings, lists and tables alone, and is not empty."""
    return bool(value) and _only_strings(value)


def _only_strings(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_only_strings, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _only_strings(item) for key, item in value.items())
    return isinstance(value, str)


def _templated(value: Any) -> ParameterValue:
    """Return a value whose strings are templates of EasyBuild."""
    if isinstance(value, str):
        return Templated(value)
    if isinstance(value, dict):
        return {key: _templated(item) for key, item in value.items()}
    return [_templated(item) for item in value]


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, (list, tuple)) else []


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


FORMAT = ImportFormat(
    "Convert easyconfigs in LUMI's style (MakeCp and shell scripts), without running them.",
    lambda paths, _: import_lumi_eb(paths),
    examples=("LUMI-EasyBuild-containers/easybuild/easyconfigs --output ours", "old.eb --dry-run"),
)
