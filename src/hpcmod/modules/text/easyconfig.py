"""Render easyconfigs for container modules: at most 25 lines unless the values themselves are long."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping

from hpcmod.core.text.quote import python_literal, sh_comment
from hpcmod.core.values.reference import ImageReference
from hpcmod.modules.values.easyconfig import EasyconfigText, ParameterValue, Templated

_COLUMNS = 120  # EasyBuild's style check: MAX_LINE_LENGTH of framework/easyconfig/style.py, 5.4.1
_INDENT = "    "
_TEMPLATE = re.compile(r"%(?=%*\(\w+\)s)")
_UNPINNED = "the checksum is unknown until the image has been downloaded; `eb FILE --inject-checksums --force` adds it"
_BY_DIGEST = "the digest in the image reference replaces a checksum"


def render_easyconfig(easyconfig: EasyconfigText) -> str:
    """Render an easyconfig that passes `eb --check-contrib` and that EasyBuild parses to the same values.

    Raises BadInputError if a string contains a NUL or is not Unicode, or the image is not a valid reference.
    """
    blocks = (
        [*(line for text in easyconfig.comments for line in _comments(text)), "easyblock = 'ContainerModule'"],
        _texts(easyconfig, "name", "version", "versionsuffix"),
        [
            *_assign("homepage", easyconfig.homepage),
            *_assign("description", easyconfig.description or easyconfig.module),
            "toolchain = SYSTEM",
        ],
        _image(easyconfig),
        [
            "sanity_check_paths = {'files': ['runscripts/get-master'], 'dirs': ['bin']}",
            "enhance_sanity_check = True",
        ],
        _texts(easyconfig, "moduleclass"),  # last, because `eb --inject-checksums` loses sources if they come last
    )
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _image(easyconfig: EasyconfigText) -> list[str]:
    reference = ImageReference.parse(easyconfig.image)
    if reference.kind == "name":
        lines = [*_assign("sources", [easyconfig.image]), *_assign_some("source_urls", easyconfig.sif.urls)]
    else:
        lines = _assign("image", easyconfig.image)
    lines += _assign_some("download_instructions", easyconfig.sif.instructions)
    if not easyconfig.checksum:
        lines += _comments(_BY_DIGEST if reference.pinned else _UNPINNED)
    lines.append(f"checksums = [{python_literal(easyconfig.checksum) if easyconfig.checksum else None}]")
    return [
        *lines,
        *_commands(easyconfig),
        *_assign_some("environment", dict(easyconfig.environment)),
        *_assign_some("bind_paths", easyconfig.bind_paths),
        *_texts(easyconfig, "netstack"),
        *(line for name, value in easyconfig.parameters for line in _assign(name, value)),
    ]


def _commands(easyconfig: EasyconfigText) -> list[str]:
    commands = easyconfig.wrapped_commands
    if commands is None:
        return []
    is_plain = all(words == (name,) for name, words in commands)
    return _assign("wrapped_commands", [name for name, _ in commands] if is_plain else dict(commands))


def _texts(easyconfig: EasyconfigText, *names: str) -> list[str]:
    """Return assignments of the non-empty strings."""
    return [line for name in names if getattr(easyconfig, name) for line in _assign(name, getattr(easyconfig, name))]


def _assign(name: str, value: ParameterValue) -> list[str]:
    return _render(f"{name} = ", value, "", indent="")


def _assign_some(name: str, value: ParameterValue) -> list[str]:
    """Return the assignment of a non-empty value."""
    return _assign(name, value) if value else []


def _render(before: str, value: ParameterValue, after: str, *, indent: str) -> list[str]:
    """Render a value on one line or, if that is too long, with its parts on separate lines."""
    line = f"{indent}{before}{_flat(value)}{after}"
    if len(line) <= _COLUMNS:
        return [line]
    inner = indent + _INDENT
    if isinstance(value, str):
        opening, closing, lines = "(", ")", [inner + python_literal(piece) for piece in _pieces(_plain(value), inner)]
    elif isinstance(value, Mapping):
        opening, closing, lines = "{", "}", _rows([_render_pair(*pair, indent=inner) for pair in value.items()])
    else:
        opening, closing, lines = "[", "]", _rows([_render("", piece, ",", indent=inner) for piece in value])
    return [f"{indent}{before}{opening}", *lines, f"{indent}{closing}{after}"]


def _render_pair(key: str, value: ParameterValue, *, indent: str) -> list[str]:
    *lines, last = _render("", key, ": (", indent=indent)
    return [*lines, *_render(last.strip()[:-1], value, ",", indent=indent)]


def _rows(items: Iterable[list[str]]) -> list[str]:
    """Put as many one-line items next to each other as fit; leave the others unchanged."""
    rows: list[str] = []
    open_ = False
    for item in items:
        short = len(item) == 1
        if open_ and short and len(rows[-1]) + 1 + len(item[0].strip()) <= _COLUMNS:
            rows[-1] += f" {item[0].strip()}"
        else:
            rows += item
        open_ = short
    return rows


def _flat(value: ParameterValue) -> str:
    if isinstance(value, str):
        return python_literal(_plain(value))
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_flat(key)}: {_flat(item)}' for key, item in value.items())}}}"
    return f"[{', '.join(map(_flat, value))}]"


def _plain(text: str) -> str:
    """Escape %(name)s, an EasyBuild template, as %%(name)s, so that it is taken literally."""
    if isinstance(text, Templated):
        return str(text)
    return _TEMPLATE.sub("%%", text)


def _pieces(text: str, indent: str) -> Iterable[str]:
    """Cut a long string into pieces that fit on a line: between words, and before a reference's digest."""
    piece = ""
    for word in re.findall(r"@?[^\s@]+\s*|@|\s+", text):
        for part in [word] if _fits(word, indent) else re.findall(r"(?s).{1,10}", word):
            if not _fits(piece + part, indent):
                yield piece
                piece = ""
            piece += part
    yield piece


def _fits(piece: str, indent: str) -> bool:
    return len(indent + python_literal(piece)) <= _COLUMNS


def _comments(text: str) -> list[str]:
    """Return a comment, broken at spaces where possible; all but the first line are indented further."""
    line = sh_comment(text).rstrip()
    if len(line) <= _COLUMNS - 2:
        return [f"# {line}".rstrip()]
    broken = textwrap.wrap(line, _COLUMNS - 2, subsequent_indent="  ", break_on_hyphens=False)
    return [f"# {piece}".rstrip() for piece in broken]
