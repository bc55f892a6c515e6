"""Read shell text with tree-sitter's grammar of bash: simple commands with their words and here-documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from hpcmod.core.process import run

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_QUOTED = re.compile(r"\\\n|'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
_COMMANDS = {"command", "declaration_command", "unset_command", "variable_assignment", "variable_assignments"}
_NO_WORD = {"file_redirect", "herestring_redirect", "heredoc_redirect", "comment", ";"}
_TO_FILES = {">", ">>", "&>", "&>>", ">|"}
_IN_TESTS = {"binary_expression", "unary_expression", "parenthesized_expression", "negation_expression"}
_PLACES = {
    "function_definition": "function",
    "do_group": "loop", "while_statement": "loop",
    "else_clause": "branch", "elif_clause": "branch", "case_item": "branch", "then": "branch",
}  # fmt: skip
_BROKEN = re.compile(r"(?<!\\)\\([ \t]+)\n")
"""A backslash with blanks behind it: read as the continuation that it was meant to be; a rule reports it."""
_DEEPEST = 100  # levels of nested statements that are read: no script has more


@dataclass(frozen=True)
class Word:
    """One word of a shell command as written, quotes included."""

    text: str
    line: int
    items: tuple[str, ...] = ()
    """The elements, if it assigns an array."""

    @property
    def plain(self) -> str:
        """Return the word without its quotes; variables are not expanded."""
        return _QUOTED.sub(lambda match: match[1] or match[2] or match[3] or "", self.text)

    @property
    def name(self) -> str:
        """Return the name of a program without its directory."""
        return self.plain.rpartition("/")[2]


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
    """A simple command, a test in brackets, or the head of a `for` loop."""

    words: tuple[Word, ...]
    background: bool = False
    """Whether it ends with `&`."""
    outputs: tuple[str, ...] = ()
    """Files that its output is redirected to."""
    documents: tuple[Document, ...] = ()
    places: frozenset[str] = frozenset()
    """Where it is: in a function, a loop, a branch."""

    @property
    def line(self) -> int:
        """Return the line on which it begins."""
        return self.words[0].line


def read_shell_commands(text: str, line: int = 1) -> tuple[Command, ...]:
    """Return the simple commands in a shell text that begins on a line, without those in `$(...)`; never fails."""
    text = _BROKEN.sub(r"\1\\\n", text.replace("\r\n", "\n"))
    reading = _Reading(text.encode(errors="replace"), line)
    reading.read(_parser().parse(reading.text).root_node, frozenset())
    return tuple(reading.commands)


def until_end(text: str) -> str:
    """Return a script up to the `exit`, or `exec` of a program, at which bash always ends: what follows may be text."""
    children = _parser().parse(text.encode(errors="replace")).root_node.children
    for node, follower in zip(children, children[1:]):
        command = node.child_by_field_name("body") or node
        words = [word.text or b"" for word in command.children] if command.type == "command" else []
        ends = words[:1] == [b"exit"] or (words[:1] == [b"exec"] and words[1:] and words[1][:1] != b"{")
        if ends and b"<<" not in (node.text or b"") and follower.type != "&":
            until = "\n".join([*text.split("\n")[: node.end_point[0] + 1], ""])
            return text if find_syntax_error(until) else until  # the grammar can be wrong about it
    return text


def find_syntax_error(text: str) -> tuple[int, str] | None:
    """Return the line and message of the first syntax error, which bash itself finds; it runs nothing of the text."""
    patterns = ("-O", "extglob") if re.search(r"^[ \t]*shopt .*\bextglob\b", text, re.MULTILINE) else ()
    done = run(["bash", *patterns, "-n", "/dev/stdin"], env={"LC_ALL": "C"}, stdin=text, timeout=10)
    kinds = "syntax error|unexpected EOF|here-document|.*bad sub"
    message = re.search(rf"line (\d+): (?:warning: )?((?:{kinds}).*)", done.stderr)
    if message is None and done.status:
        return 1, done.stderr.strip().rpartition(": ")[2] or "it cannot be read"
    return (int(message[1]), message[2]) if message else None


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash  # only lint needs it
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


@dataclass
class _Reading:
    """The commands of a text that were read so far."""

    text: bytes
    line: int
    """Number of its first line."""
    commands: list[Command] = field(default_factory=list)

    def read(self, node: Node, places: frozenset[str], depth: int = 0) -> None:
        """Add the commands of a statement."""
        if depth > _DEEPEST:
            return
        if node.type in _COMMANDS:
            self._add(node, [node] if node.type == "variable_assignment" else node.children, places)
        elif node.type == "test_command":
            self._add(node, list(_parts_of_test(node)), places)
        elif node.type == "redirected_statement":
            self._read_redirected(node, places, depth)
        elif not (node.child_count and node.children[0].type == "(("):
            if node.type == "for_statement":
                self._add(node, [each for each in node.children if each.type != "do_group"], places)
            self._read_all(node, places | {_PLACES[node.type]} if node.type in _PLACES else places, depth)

    def _read_all(self, node: Node, places: frozenset[str], depth: int) -> None:
        """Add the commands of the statements in a node."""
        # pairs, as next_sibling counts from the first child each time
        for child, follower in zip_longest(node.children, node.children[1:]):
            before = len(self.commands)
            if child.is_named:
                self.read(child, places, depth + 1)
            elif child.type == "then":
                places |= {"branch"}
            if follower is not None and follower.type == "&":
                self.commands[before:] = [replace(each, background=True) for each in self.commands[before:]]

    def _read_redirected(self, node: Node, places: frozenset[str], depth: int) -> None:
        before = len(self.commands)
        for child in node.children:
            if child.type not in _NO_WORD:
                self.read(child, places, depth + 1)
        at = len(self.commands) - 1
        for child in node.children:
            redirects = [child, *(child.children if child.type == "heredoc_redirect" else ())]
            if at >= before:
                self.commands[at] = self._with_redirects(self.commands[at], redirects)
            for each in redirects[1:]:  # what follows <<EOF on its line: a pipe, the next command of a list
                if each.type not in {*_NO_WORD, "heredoc_start", "heredoc_body", "heredoc_end"} and each.is_named:
                    self.read(each, places, depth + 1)

    def _with_redirects(self, command: Command, redirects: list[Node]) -> Command:
        outputs, documents = list(command.outputs), list(command.documents)
        for node in redirects:
            to = node.child_by_field_name("destination") if node.type == "file_redirect" else None
            if to is not None and any(each.type in _TO_FILES for each in node.children):
                outputs.append(Word(self._text(to), 0).plain)
            elif node.type == "heredoc_redirect":
                parts = {each.type: each for each in node.children}
                delimiter, body = parts.get("heredoc_start"), parts.get("heredoc_body")
                if delimiter is not None and body is not None:
                    literal = self._text(delimiter)[:1] in ("'", '"', "\\")
                    body_text = self._text(body).removesuffix("\n")
                    documents.append(Document(body.start_point[0] + self.line, body_text, literal))
        return replace(command, outputs=tuple(outputs), documents=tuple(documents))

    def _add(self, node: Node, parts: list[Node], places: frozenset[str]) -> None:
        parts = [part for part in parts if part.type not in _NO_WORD and part.end_byte > part.start_byte]
        words: list[Word] = []
        for before, part in zip((None, *parts), parts):
            if before is not None and before.end_byte == part.start_byte:  # the grammar splits a:$b at the $
                words[-1] = replace(words[-1], text=words[-1].text + self._text(part))
            else:
                words.append(self._word(part))
        if words:
            self.commands.append(self._with_redirects(Command(tuple(words), places=places), node.children))

    def _word(self, node: Node) -> Word:
        value = node.child_by_field_name("value") if node.type == "variable_assignment" else None
        items = value.children[1:-1] if value is not None and value.type == "array" else ()
        listed = tuple(self._text(each) for each in items if each.type != "comment")
        return Word(self._text(node), node.start_point[0] + self.line, listed)

    def _text(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte].decode(errors="replace")


def _parts_of_test(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type in _IN_TESTS:
            yield from _parts_of_test(child)
        else:
            yield child
