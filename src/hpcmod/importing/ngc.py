"""NVIDIA's container modules, Lua written by hand in one pattern: read as text, line by line, and never run.

Source: NVIDIA/ngc-container-environment-modules, 52 modules of 14 applications, last changed 2021-11, read 2026-11.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.reference import ImageReference
from hpcmod.importing.formats import ImportFormat
from hpcmod.importing.outcome import (
    MOVING,
    UNPINNED,
    Findings,
    ImportedEasyconfig,
    Outcome,
    convert_files,
    of_registry,
    settle_names,
)
from hpcmod.modules.values.easyconfig import EasyconfigText, ParameterValue
from hpcmod.modules.values.spec import why_no_variable

_STRING = r""""((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'"""
_LONG = r"\[(?P<level>=*)\[.*?(?:\](?P=level)\]|\Z)"  # one that is not closed goes to the end of the file
_NO_CODE = re.compile(rf"(?P<code>[^\"'\[-]+|{_STRING})|(?:--)?{_LONG}|--[^\n]*", re.DOTALL)
_LOCAL = re.compile(rf"^[ \t]*(?:local[ \t]+)?(\w+)[ \t]*=[ \t]*(?:{_STRING})[ \t]*$", re.MULTILINE)
_PROGRAMS = re.compile(r"^[ \t]*(?:local[ \t]+)?programs[ \t]*=[ \t]*\{([^{}]*)\}", re.MULTILINE)
_WHATIS = re.compile(rf"^[ \t]*whatis[ \t]*\([ \t]*(?:{_STRING})[ \t]*\)", re.MULTILINE)
_SETS = re.compile(
    rf"^[ \t]*(?P<call>setenv|pushenv|prepend_path|append_path)[ \t]*\([ \t]*(?:{_STRING})[ \t]*,"
    r"[ \t]*(?P<rest>.*)\)[ \t]*$",
    re.MULTILINE,
)
_VALUE = re.compile(rf"^(?:{_STRING})[ \t]*(?:,.*)?$")
_CONFLICT = re.compile(r"^[ \t]*conflict[ \t]*\(([^()]*(?:\(\))?[^()]*)\)", re.MULTILINE)
_LAUNCH = re.compile(rf"singularity[ \t]*\.\.[ \t]*(?:{_STRING})")
_STARTS_PROGRAM = re.compile(r"^[ \t]*set_shell_function[ \t]*\([^,\n]*,[^,\n]*\.\.[ \t]*program\b", re.MULTILINE)
"""A shell function that names its program: without it, the image's entry point starts it."""
_LOADS = re.compile(r"^[ \t]*(?:load|try_load|prereq|depends_on|always_load)[ \t]*\(.*", re.MULTILINE)
_MESSAGES = re.compile(r"^[ \t]*LmodMessage[ \t]*\(.*", re.MULTILINE)
_ENTRY_POINT = "/.singularity.d/runscript"
_OF_THE_PATTERN = re.compile(
    r"(?:help|whatis|conflict|load|prereq|LmodMessage|set_shell_function|setenv|pushenv|prepend_path|append_path)\s*\(.*"
    r"|(?:if|for|else|elseif|end)\b.*|image = (?:pathJoin\(.*|uri)|container_launch \.\. .*"
    r"|local (?:image|uri|entrypoint_args|singularity|singularity_module|container_launch)\s*=.*"
)
"""Lines that all of these modules have, or that are reported by name."""
_ESCAPED = re.compile(r"\\(\d{1,3}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


def import_ngc(paths: Iterable[Path]) -> tuple[Outcome, ...]:
    """Convert modulefiles, NAME/VERSION.lua, and all below directories."""
    return settle_names(convert_files(paths, ".lua", lambda text, path: [convert_module(text, path)]))


def convert_module(text: str, path: Path) -> ImportedEasyconfig:
    """Convert a modulefile.

    Raises BadInputError if it does not name an image in the usual way.
    """
    code = _NO_CODE.sub(lambda match: match["code"] or "", text)
    texts = {match[1]: _string(match[2], match[3]) for match in _LOCAL.finditer(code)}
    reference = _find_image(texts, path)
    whatis = dict(_whatis(code))
    name, version = path.absolute().parent.name, path.name.removesuffix(".lua")
    programs = _PROGRAMS.search(code)
    listed = [_string(*quoted) for quoted in re.findall(_STRING, programs[1])] if programs else []
    said = Findings(notes=[] if reference.pinned else [UNPINNED])
    start = _start(code, texts, said)
    starts_program = not start or _STARTS_PROGRAM.search(code)
    commands = {name: (*start, name) if starts_program else start for name in listed}
    easyconfig = EasyconfigText(
        name, version, "", whatis.get("description", ""), homepage=whatis.get("url", ""), **_settings(code, said)
    )
    easyconfig = of_registry(easyconfig, reference, commands if programs else None, said)
    _report(code, said, has_programs=bool(listed))
    if whatis.get("version", version) != version:
        said.notes.append(f"it calls itself version {whatis['version']}")
    return said.outcome(path, easyconfig, namespace=path.absolute().parts[-3:-2])


def _find_image(texts: dict[str, str], path: Path) -> ImageReference:
    if "uri" not in texts:
        raise BadInputError(f'{path}: image not found: there is no line `local uri = "docker://..."`', "")
    reference = ImageReference.parse(texts["uri"])
    if not reference.registry:
        raise BadInputError(f"{path}: its image {texts['uri'][:80]!r} is not in a registry", "")
    if reference.tag == "latest" and not reference.pinned:
        raise BadInputError(f"{path}: {MOVING}", "")
    return reference


def _whatis(code: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of the module's whatis lines; a line without a key is the description."""
    for match in _WHATIS.finditer(code):
        key, colon, value = _string(match[1], match[2]).partition(":")
        known = colon and key.strip().lower() in ("name", "version", "description", "url")
        yield (key.strip().lower(), value.strip()) if known else ("description", f"{key}{colon}{value}".strip())


def _start(code: str, texts: dict[str, str], said: Findings) -> tuple[str, ...]:
    """Return the words in front of each program: the image's entry point with its arguments if the module runs it."""
    launched = [_string(*quoted).split() for quoted in _LAUNCH.findall(code)]
    options = [[word for word in words if word not in ("run", "exec", "--nv", "pull")] for words in launched]
    said.left_out += [
        f"options of the runtime: {' '.join(words)}: write them after `singularity exec`" for words in options if words
    ]
    arguments = texts.get("entrypoint_args", "")
    if not any("run" in words for words in launched):
        if arguments:
            said.left_out.append(f"arguments of the entry point, which `singularity exec` does not run: {arguments!r}")
        return ()
    try:
        return (_ENTRY_POINT, *shlex.split(arguments))
    except ValueError:
        said.left_out.append(f"arguments of the entry point: {arguments!r}")
        return (_ENTRY_POINT,)


def _settings(code: str, said: Findings) -> dict[str, Any]:
    """Return the variables, binds and conflicts of a module as fields of an easyconfig."""
    container, module, binds = list[tuple[str, str]](), dict[str, ParameterValue](), list[str]()
    for match in _SETS.finditer(code):
        name, value = _string(match[2], match[3]), _VALUE.match(match["rest"].strip())
        inside = re.fullmatch(r"(?:SINGULARITY|APPTAINER)ENV_(\w+)", name)
        text = _string(value[1], value[2]) if value else ""
        is_bind = re.fullmatch(r"(?:SINGULARITY|APPTAINER)_BIND(?:PATH)?", name) is not None
        if value and is_bind and not re.search(r"[$~]", text):
            binds += [bind for bind in text.split(",") if bind]
        elif value and inside and not why_no_variable(inside[1], text):
            container.append((inside[1], text))
        elif value and match["call"] in ("setenv", "pushenv") and not inside and not is_bind:
            module[name] = text
        else:
            cure = "bind it yourself: export SINGULARITY_BINDPATH=..." if is_bind else "set it after loading the module"
            said.left_out.append(f"the variable {name}, {cure}: {match[0].strip()}")
    others = [_string(*quoted) for match in _CONFLICT.finditer(code) for quoted in re.findall(_STRING, match[1])]
    names = [name for name in dict.fromkeys(others) if re.fullmatch(r"[\w./+-]+", name)]
    said.left_out += [f"the conflict with {name!r}" for name in others if name not in names]
    parameters: list[tuple[str, ParameterValue]] = [("modextravars", module)] if module else []
    if names:
        parameters.append(("modluafooter", "".join(f'conflict("{name}")\n' for name in names)))
        parameters.append(("modtclfooter", "".join(f"conflict {name}\n" for name in names)))
    return {"environment": tuple(container), "bind_paths": tuple(binds), "parameters": tuple(parameters)}


def _report(code: str, said: Findings, *, has_programs: bool) -> None:
    if has_programs:
        said.changed.append("commands are programs on PATH, not shell functions: scripts and job launchers find them")
    else:
        said.left_out.append("its commands: list of programs not found")
    loads = [line.strip() for line in _LOADS.findall(code)]
    if loads:
        needs = "no other module is loaded; singularity or apptainer must be on PATH"
        said.changed.append(f"{needs}: {'; '.join(loads)}")
    if _MESSAGES.search(code) or "NGC_IMAGE_DIR" in code:
        when = "the image is fetched when the module is installed, not at first use"
        said.changed.append(f"{when}: NGC_IMAGE_DIR is not read")
    rest = (line.strip() for line in _PROGRAMS.sub("", code).splitlines())
    unknown = [line for line in rest if line and not _OF_THE_PATTERN.fullmatch(line)]
    if unknown:
        said.left_out.append(f"{len(unknown)} other lines of Lua: {'; '.join(unknown)}")


def _string(double: str | None, single: str | None) -> str:
    """Return the value of a Lua string from the text within its quotes."""

    def unescaped(match: re.Match[str]) -> str:
        return chr(int(match[1])) if match[1].isdecimal() else _LETTERS.get(match[1], match[1])

    return _ESCAPED.sub(unescaped, double or single or "")


FORMAT = ImportFormat(
    "Convert NVIDIA's container modules (NAME/VERSION.lua), without running them.",
    lambda paths, _: import_ngc(paths),
    examples=("ngc-container-environment-modules --output ours", "modules/pytorch --dry-run"),
)
