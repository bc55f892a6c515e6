"""Render easyconfigs for container modules: at most 25 lines unless the values themselves are long."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from hpcmod.core.errors import BadInputError
from hpcmod.core.text.quote import python_literal, sh_comment
from hpcmod.core.values.reference import ImageReference
from hpcmod.modules.values.spec import Commands

ParameterValue = Union[str, Sequence["ParameterValue"], Mapping[str, "ParameterValue"]]

_COLUMNS = 120  # EasyBuild's style check: MAX_LINE_LENGTH of framework/easyconfig/style.py, 5.4.1
_INDENT = "    "
_LONGEST_NAME = 200  # characters in a file name: file systems allow 255, and temporary names are longer
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_TEMPLATE = re.compile(r"%(?=%*\(\w+\)s)")
_UNPINNED = "the checksum is unknown until the image has been downloaded; `eb FILE --inject-checksums --force` adds it"
_BY_DIGEST = "the digest in the image reference replaces a checksum"


class Templated(str):
    """A string in which EasyBuild fills in its templates; other strings are taken literally."""

    __slots__ = ()


@dataclass(frozen=True)
class EasyconfigText:
    """Content of an easyconfig; all strings may be hostile, because they are written as data."""

    name: str
    version: str
    image: str
    """A reference (`docker://...@sha256:...`, an https address, a path), or the file name of the SIF."""
    description: str
    versionsuffix: str = ""
    """Including its dash, e.g. -rocm-6.2.4-singularity."""
    homepage: str = ""
    source_urls: tuple[str, ...] = ()
    """Where to get a SIF that is given by file name."""
    download_instructions: str = ""
    """What to do if the image is not found."""
    checksum: str = ""
    """The sha256 of the SIF; empty if not known."""
    wrapped_commands: tuple[str, ...] | None = None
    """None: the default commands that the image has; empty: no commands."""
    command_words: Commands = ()
    """Command lines of wrappers that do not run the command of the same name."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the container."""
    bind_paths: tuple[str, ...] = ()
    """Binds in addition to the site's, `source[:destination[:options]]`."""
    netstack: str = ""
    """Mode of the host's network libraries; empty: as the site profile says."""
    parameters: tuple[tuple[str, ParameterValue], ...] = ()
    """Other parameters of EasyBuild, e.g. docurls."""
    moduleclass: str = "ai"
    comments: tuple[str, ...] = ()
    """Comments at the top, each on a line of its own, or on several if it is long."""

    def __post_init__(self) -> None:
        """Check values that become part of file and module names."""
        for what, text in (("name", self.name), ("version", self.version)):
            if not _PLAIN.fullmatch(text):
                raise _bad(what, text)
        if not re.fullmatch(r"[A-Za-z0-9_.+-]*", self.versionsuffix):
            raise _bad("versionsuffix", self.versionsuffix)
        if len(self.file_name) > _LONGEST_NAME:
            raise BadInputError(
                f"{self.file_name[:80]}...: file name of {len(self.file_name)} characters is too long", "Shorten it."
            )
        if self.checksum and not re.fullmatch("[0-9a-f]{64}", self.checksum):
            raise BadInputError(f"checksum: {self.checksum!r} is not a valid sha256", "Give 64 hexadecimal digits.")

    @property
    def file_name(self) -> str:
        """Return the file name, by EasyBuild's rule for the SYSTEM toolchain."""
        return f"{self.name}-{self.version}{self.versionsuffix}.eb"

    @property
    def path(self) -> str:
        """Return the path below a robot path, e.g. p/PyTorch/PyTorch-2.7.1.eb."""
        letter = self.name[0].lower()
        return f"{letter if letter.isalpha() else '0'}/{self.name}/{self.file_name}"

    @property
    def module(self) -> str:
        """Return the name of the module that it installs."""
        return f"{self.name}/{self.version}{self.versionsuffix}"


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
        lines = [*_assign("sources", [easyconfig.image]), *_assign_some("source_urls", easyconfig.source_urls)]
    else:
        lines = _assign("image", easyconfig.image)
    lines += _texts(easyconfig, "download_instructions")
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
    if easyconfig.wrapped_commands is None and not easyconfig.command_words:
        return []
    names = easyconfig.wrapped_commands or ()
    if not easyconfig.command_words:
        return _assign("wrapped_commands", names)
    return _assign("wrapped_commands", {**{name: (name,) for name in names}, **dict(easyconfig.command_words)})


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


def _bad(what: str, text: str) -> BadInputError:
    return BadInputError(
        f"{what}: {text[:80]!r} is not valid in a module name",
        "Use letters, digits, _ . + and -; do not start with . + or -.",
    )
