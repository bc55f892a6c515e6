"""Split shell text into simple commands: words with their line, here-documents, and unclosed quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_CLOSING = {"'": "'", '"': '"', "`": "`", "(": ")"}
_BREAK = re.compile(r"&&|\|\||;;|\|&|[\n;|&()]")
_REDIRECTION = re.compile(r"(?:\d+|&)?(?:>>|>\||>&|<&|<>|<<<|<<-?|>|<)")
_QUOTED = re.compile(r"\\\n|'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t\r]|\\[ \t\r]*\n)+")
_BEFORE_ARITHMETIC = {"if", "while", "until", "elif", "for", "!", "then", "do", "else"}
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=")


@dataclass(frozen=True)
class Word:
    """One word of a shell command as written, quotes included."""

    text: str
    line: int

    @property
    def plain(self) -> str:
        """Return the word without its quotes; variables are not expanded."""
        return _QUOTED.sub(lambda found: found[1] or found[2] or found[3] or "", self.text)


@dataclass(frozen=True)
class Document:
    """A here-document."""

    line: int
    """Number of its first line."""
    text: str
    literal: bool
    """Whether its delimiter is quoted, so that the shell expands nothing in it."""


@dataclass(frozen=True)
class Command:
    """A simple command: the words up to the next separator."""

    words: tuple[Word, ...]
    background: bool = False
    """Whether it ends with `&`."""
    outputs: tuple[str, ...] = ()
    """Files that its output is redirected to."""
    documents: tuple[Document, ...] = ()


@dataclass
class _Ahead:
    """Finds the next occurrence of a string, scanning each part of the text only once."""

    text: str
    piece: str
    found: int = -1

    def after(self, at: int) -> int:
        """Return the next occurrence at or after a position, which must not decrease; the end of the text if none."""
        if self.found < at:
            found = self.text.find(self.piece, at)
            self.found = len(self.text) if found < 0 else found
        return self.found


@dataclass
class _Reading:
    """A command that is being read, and the here-documents of its line."""

    words: list[Word] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    awaited: list[tuple[str, bool]] = field(default_factory=list)
    """Delimiters of here-documents that begin after the end of this line, and whether they are quoted."""
    documents: list[Document] = field(default_factory=list)
    """All here-documents read so far."""
    taken: int = 0
    """How many of them are already assigned to commands."""

    def end(self, separator: str) -> Command:
        """Return the command that ends here."""
        documents = tuple(self.documents[self.taken :])
        command = Command(tuple(self.words), separator == "&", tuple(self.outputs), documents)
        self.words, self.outputs, self.taken = [], [], len(self.documents)
        return command


def read_shell_commands(text: str) -> Iterator[Command]:
    """Split shell text into simple commands, without comments and redirections; never fails."""
    reading = _Reading()
    for kind, piece, line in _tokens(text, reading):
        if kind == "word":
            reading.words.append(Word(piece, line))
        elif reading.words:
            yield reading.end(piece)
    if reading.words:
        yield reading.end("")


def find_unclosed(text: str) -> int | None:
    """Return the line of the word with an unclosed quote or bracket."""
    last = [(piece, line) for kind, piece, line in _tokens(text, _Reading()) if kind == "word"][-1:]
    return next((line for piece, line in last if not _is_closed(piece)), None)


def document_lines(text: str) -> set[int]:
    """Return the numbers of the lines in here-documents, including their last lines."""
    reading = _Reading()
    for _ in _tokens(text, reading):
        pass
    spans = ((one.line, one.line + one.text.count("\n") + 2) for one in reading.documents)
    return {number for first, end in spans for number in range(first, end)}


def _tokens(text: str, reading: _Reading) -> Iterator[tuple[str, str, int]]:
    """Yield words and separators: kind, text, line."""
    at, line, first = 0, 1, True
    closing, newline = _Ahead(text, "))"), _Ahead(text, "\n")
    while at < len(text):
        start = at
        if blank := _BLANK.match(text, at):
            at = blank.end()
        elif text[at] == "#":
            at = _line_end(text, at)
        elif first and text.startswith("((", at) and closing.after(at + 2) < newline.after(at + 2):
            at = closing.found + 2
        elif redirected := _REDIRECTION.match(text, at):
            at = _read_redirection(text, redirected, reading)
        elif broken := _BREAK.match(text, at):
            at, first = broken.end(), True
            if broken[0] == "\n" and reading.awaited:
                at = _read_documents(text, at, line + 1, reading)
            yield "break", broken[0], line
        else:
            at = _word_end(text, at)
            first = text[start:at] in _BEFORE_ARITHMETIC
            yield "word", text[start:at], line
        line += text.count("\n", start, at)


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _read_redirection(text: str, found: re.Match[str], reading: _Reading) -> int:
    """Record what a redirection writes or expects, and return where it ends."""
    at = found.end()
    while at < len(text) and text[at] in " \t":
        at += 1
    end = _word_end(text, at) if at < len(text) and not _BREAK.match(text, at) else at
    word = Word(text[at:end], 0)
    if found[0].endswith(("<<", "<<-")):
        reading.awaited.append((word.plain, word.plain != word.text))
    elif ">" in found[0]:
        reading.outputs.append(word.plain)
    return max(end, at)


def _read_documents(text: str, at: int, line: int, reading: _Reading) -> int:
    """Read the here-documents that begin at `at`, on line `line`, and return where they end."""
    for delimiter, literal in reading.awaited:
        found = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(text, at)
        end = found.start() if found else len(text)
        body = text[at:end].removesuffix("\n")
        reading.documents.append(Document(line, body, literal))
        line += text.count("\n", at, end) + 1
        at = min(found.end() + 1, len(text)) if found else len(text)
    reading.awaited.clear()
    return at


def _word_end(text: str, at: int) -> int:
    """Return where the word that begins here ends: at least one character further."""
    start = at
    while at < len(text) and not (text[at] in " \t\r\n;|&()<>" and at > start):
        if text[at] == "\\":
            at += 2
        elif text[at] in "'\"`" or text.startswith(("$(", "${"), at):
            at = _closed(text, at)[0]
        else:
            at += 1
        if at < len(text) and text[at] == "(" and _ARRAY.fullmatch(text, start, at):
            at = _closed(text, at)[0]
    return min(at, len(text))


def _is_closed(word: str) -> bool:
    at = 0
    while at < len(word):
        if word[at] == "\\":
            at += 2
        elif word[at] in "'\"`(" or word.startswith(("$(", "${"), at):
            at, closed = _closed(word, at)
            if not closed:
                return False
        else:
            at += 1
    return True


def _closed(text: str, at: int) -> tuple[int, bool]:
    """Return where what opens here closes (quotes, $(...), ${...} and everything within), and whether it does."""
    if text[at] == "$":
        at += 1
    inside = [_CLOSING.get(text[at], "}")]
    at += 1
    while inside and at < len(text):
        char, now = text[at], inside[-1]
        if char == "\\" and now != "'":
            at += 1
        elif char == now:
            inside.pop()
        elif now != "'" and (char == "`" or (char in "(\"'" and now != '"')):
            inside.append(_CLOSING[char])
        elif now == '"' and text.startswith(("$(", "${"), at):
            inside.append(")" if text[at + 1] == "(" else "}")
            at += 1
        at += 1
    return min(at, len(text)), not inside
