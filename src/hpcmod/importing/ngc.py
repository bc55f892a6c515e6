"""NVIDIA's container modules, Lua written by hand in one pattern: read as text, line by line, and never run.

Source: NVIDIA/ngc-container-environment-modules, 52 modules of 14 applications, last changed 2021-11, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hpcmod.errors import BadInputError
from hpcmod.importing.formats import ImportFormat
from hpcmod.importing.outcome import (
    UNPINNED,
    ImportedEasyconfig,
    Outcome,
    convert_files,
    describe_registry_image,
    settle_names,
)
from hpcmod.model.images.reference import ImageReference

_STRING = r""""((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'"""
_LONG = r"\[(?P<level>=*)\[.*?\](?P=level)\]"
_NO_CODE = re.compile(rf"(?P<string>{_STRING})|(?:--)?{_LONG}|--[^\n]*", re.DOTALL)
_LOCAL = re.compile(rf"^[ \t]*(?:local[ \t]+)?(\w+)[ \t]*=[ \t]*(?:{_STRING})[ \t]*$", re.MULTILINE)
_PROGRAMS = re.compile(r"^[ \t]*(?:local[ \t]+)?programs[ \t]*=[ \t]*\{([^{}]*)\}", re.MULTILINE)
_WHATIS = re.compile(rf"^[ \t]*whatis[ \t]*\([ \t]*(?:{_STRING})[ \t]*\)", re.MULTILINE)
_SETS = re.compile(rf"^[ \t]*(setenv|pushenv|prepend_path|append_path)[ \t]*\([ \t]*(?:{_STRING})", re.MULTILINE)
_CONFLICT = re.compile(r"^[ \t]*conflict[ \t]*\(([^()]*(?:\(\))?[^()]*)\)", re.MULTILINE)
_LAUNCH = re.compile(rf"singularity[ \t]*\.\.[ \t]*(?:{_STRING})")
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
    return settle_names(convert_files(paths, (".lua",), lambda text, path: [convert_module(text, path)]))


def convert_module(text: str, path: Path) -> ImportedEasyconfig:
    """Convert a modulefile.

    Raises
    ------
    BadInputError
        If it does not name an image in the usual way.
    """
    code = _NO_CODE.sub(lambda found: found["string"] or "", text)
    texts = {match[1]: _string(match[2], match[3]) for match in _LOCAL.finditer(code)}
    reference = _find_image(texts, path)
    whatis = dict(_whatis(code))
    name, version = path.absolute().parent.name, path.name.removesuffix(".lua")
    programs = _PROGRAMS.search(code)
    listed = [_string(*found) for found in re.findall(_STRING, programs[1])] if programs else []
    easyconfig, left_out = describe_registry_image(
        name,
        version,
        reference,
        description=whatis.get("description", ""),
        url=whatis.get("url", ""),
        commands=listed,
    )
    notes = [] if reference.pinned else [UNPINNED]
    if whatis.get("version", version) != version:
        notes.append(f"it calls itself version {whatis['version'][:60]}")
    return ImportedEasyconfig(
        str(path),
        easyconfig,
        (*left_out, *_left_out(code, texts, has_programs=bool(listed))),
        tuple(notes),
        namespace=tuple(path.absolute().parts[-3:-2]),
    )


def _find_image(texts: dict[str, str], path: Path) -> ImageReference:
    if "uri" not in texts:
        raise BadInputError(f'{path}: image not found: there is no line `local uri = "docker://..."`', "")
    reference = ImageReference.parse(texts["uri"])
    if not reference.registry:
        raise BadInputError(f"{path}: its image {texts['uri'][:80]!r} is not in a registry", "")
    if reference.tag == "latest" and not reference.pinned:
        raise BadInputError(f"{path}: the tag latest without a digest can mean another image tomorrow", "")
    return reference


def _whatis(code: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of the module's whatis lines; a line without a key is the description."""
    for match in _WHATIS.finditer(code):
        key, colon, value = _string(match[1], match[2]).partition(":")
        known = colon and key.strip().lower() in ("name", "version", "description", "url")
        yield (key.strip().lower(), value.strip()) if known else ("description", f"{key}{colon}{value}".strip())


def _left_out(code: str, texts: dict[str, str], *, has_programs: bool) -> Iterator[str]:
    if not has_programs:
        yield "its commands: list of programs not found"
    names = dict.fromkeys(_string(match[2], match[3]) for match in _SETS.finditer(code))
    if names:
        yield f"variables of the module: {', '.join(names)[:200]}"
    if texts.get("entrypoint_args"):
        yield f"arguments of the entry point: {texts['entrypoint_args'][:80]!r}"
    for match in _LAUNCH.finditer(code):
        options = [word for word in _string(match[1], match[2]).split() if word not in ("run", "exec", "--nv", "pull")]
        if options:
            yield f"options of the runtime: {' '.join(options)[:80]}"
    rest = (line.strip() for line in _PROGRAMS.sub("", code).splitlines())
    unknown = [line for line in rest if line and not _OF_THE_PATTERN.fullmatch(line)]
    if unknown:
        yield f"{len(unknown)} other lines of Lua: {'; '.join(unknown)[:120]}"
    others = [_string(*found) for match in _CONFLICT.finditer(code) for found in re.findall(_STRING, match[1])]
    if others:
        yield f"conflicts with {', '.join(dict.fromkeys(others))[:100]}: hpcmod's modules are one family"


def _string(double: str | None, single: str | None) -> str:
    """Return the value of a Lua string from the text within its quotes."""
    return _ESCAPED.sub(lambda found: _unescaped(found[1]), double or single or "")


def _unescaped(code: str) -> str:
    return chr(int(code)) if code.isdecimal() else _LETTERS.get(code, code)


FORMAT = ImportFormat(
    "Convert NVIDIA's container modules (NAME/VERSION.lua), without running them.",
    lambda paths, _: import_ngc(paths),
    examples=("ngc-container-environment-modules --output ours", "modules/pytorch --dry-run"),
)
