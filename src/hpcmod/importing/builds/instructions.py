"""Split a Dockerfile into instructions, and those into flags, words and pairs, as Docker does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcmod.errors import BadInputError
from hpcmod.importing.carried import shown_text

HEREDOC = re.compile(r"<<(-?)([\"']?)([A-Za-z_]\w*)\2")
_FLAG = re.compile(r"--([a-z][a-z-]*)(?:=(\S*))?\s+")
_INSTRUCTIONS = (
    *("FROM", "ARG", "ENV", "RUN", "COPY", "ADD", "WORKDIR", "USER", "LABEL", "SHELL", "ENTRYPOINT", "CMD", "EXPOSE"),
    *("VOLUME", "HEALTHCHECK", "STOPSIGNAL", "ONBUILD", "MAINTAINER"),
)


@dataclass(frozen=True)
class Instruction:
    """One instruction, continued lines joined."""

    name: str
    """In upper case."""
    text: str
    """What follows it."""
    documents: tuple[tuple[str, str, bool], ...]
    """Here-documents: delimiter, text, and whether variables in it are expanded."""
    line: int


def read_instructions(text: str) -> list[Instruction]:
    """Split a Dockerfile into instructions.

    Raises
    ------
    BadInputError
        If there is an unknown one, or the file changes its escape character.
    """
    if re.search(r"^#\s*escape\s*=\s*`", text, re.MULTILINE):
        raise BadInputError("its escape character is `: it is for Windows", "")
    lines = text.replace("\r\n", "\n").split("\n")
    found = []
    at = 0
    while at < len(lines):
        start = at
        if not lines[at].strip() or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        pieces: list[str] = []
        while at < len(lines):
            piece = lines[at]
            at += 1
            if pieces and (not piece.strip() or piece.lstrip().startswith("#")):
                continue
            ended = not re.search(r"\\[ \t]*$", piece)
            pieces.append(piece if ended else re.sub(r"\\[ \t]*$", "", piece))
            if ended:
                break
        name, _, rest = "".join(pieces).strip().partition(" ")
        name, rest = (name, rest) if "\t" not in name else tuple(re.split(r"\s+", "".join(pieces).strip(), maxsplit=1))
        joined = "\\\n".join(pieces).strip()[len(name) :].strip() if name.upper() == "RUN" else rest.strip()
        documents, at = _read_documents(name.upper(), joined, lines, at)
        if name.upper() not in _INSTRUCTIONS:
            raise BadInputError(f"line {start + 1}: {name[:40]!r} is not an instruction of a Dockerfile", "")
        found.append(Instruction(name.upper(), joined, documents, start + 1))
    return found


def _read_documents(
    name: str, text: str, lines: Sequence[str], at: int
) -> tuple[tuple[tuple[str, str, bool], ...], int]:
    """Read the here-documents that begin after an instruction, and return them and where they end."""
    found = []
    for dash, quote, delimiter in HEREDOC.findall(text) if name in ("RUN", "COPY", "ADD") else ():
        body = []
        while at < len(lines) and (lines[at].lstrip("\t") if dash else lines[at]) != delimiter:
            body.append(lines[at].lstrip("\t") if dash else lines[at])
            at += 1
        if at >= len(lines):
            raise BadInputError(f"the here-document {delimiter} has no end", "")
        at += 1
        found.append((delimiter, "".join(f"{line}\n" for line in body), not quote))
    return tuple(found), at


def split_flags(text: str) -> tuple[dict[str, str], str]:
    """Return the flags before the arguments of an instruction, and the rest."""
    flags: dict[str, str] = {}
    while match := _FLAG.match(f"{text} "):
        flags[match[1]] = f"{flags[match[1]]} {match[2] or ''}" if match[1] in flags else match[2] or ""
        text = text[match.end() :]
    return flags, text


def read_pairs(one: Instruction, *, bare: bool = False) -> Iterator[tuple[str, str | None]]:
    """Yield names and values of ENV or ARG, without quotes; a bare name has the value None."""
    if one.name == "ENV" and not re.match(r"\w+=", one.text):
        name, _, value = one.text.partition(" ")
        yield name, value.strip()
        return
    for word in re.findall(r"(?:[^\s\"'\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*')+", one.text, re.DOTALL):
        name, equals, value = word.partition("=")
        if not equals and not bare:
            raise BadInputError(f"line {one.line}: {one.name} {shown_text(one.text)} is not NAME=VALUE", "")
        yield name, unquote(value) if equals else None


def unquote(text: str) -> str:
    """Remove quotes and backslashes as a Dockerfile does; `\\$` stays, and means `$`."""
    return re.sub(
        r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\([^$])",
        lambda found: (
            re.sub(r"\$", r"\\$", found[1])
            if found[1] is not None
            else re.sub(r"\\([^$])", r"\1", found[2])
            if found[2] is not None
            else found[3]
        ),
        text,
        flags=re.DOTALL,
    )


def read_json_words(one: Instruction, text: str | None = None) -> list[str] | None:
    """Return the words of an instruction in the form of a JSON list; None if it is not one."""
    given = (one.text if text is None else text).strip().replace("\\\n", "")
    if not given.startswith("["):
        return None
    try:
        words = json.loads(given)
    except (ValueError, RecursionError):
        return None
    return words if words and all(isinstance(word, str) and "\0" not in word for word in words) else None
