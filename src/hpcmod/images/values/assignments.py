"""The assignments of a shell script, read without running it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ASSIGNMENT = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=")
_LITERAL = r"""(?:'[^']*'|"(?:[^"\\$`]|\\.)*"|\\.|[^\s'"\\$`;&|<>()~{}])*"""
_VALUE = re.compile(_LITERAL, re.DOTALL)
_DEFAULT = re.compile(rf'"?\$\{{([A-Za-z_][A-Za-z0-9_]*):?-({_LITERAL})\}}"?', re.DOTALL)
_END = re.compile(r"[ \t]*;?[ \t]*(?:[ \t]#[^\n]*)?(?:\n|\Z)")
_PIECE = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""", re.DOTALL)
_ESCAPED = re.compile(r'\\([$`"\\\n])')
_BLOCK_OPENS = re.compile(r"[ \t]*(?:if|for|while|until|case)\b|[^#\n]*\{[ \t]*$")
_BLOCK_CLOSES = re.compile(r"[ \t]*(?:fi|done|esac|\})\b|[ \t]*\}|[^#\n]*\b(?:fi|done|esac)[ \t]*$")


def assignments(script: str) -> Iterator[tuple[str, str | None, str, bool]]:
    """Yield the unconditional assignments of a shell script.

    Yields
    ------
    tuple
    Variable; its value, None if it is not a literal; the right side as written; and whether it is only a
        default, as in `NAME="${NAME:-"value"}"`.
    """
    at = depth = 0
    while at < len(script):
        line_end = script.find("\n", at) + 1 or len(script)
        line = script[at : line_end - 1] if script[line_end - 1] == "\n" else script[at:line_end]
        depth = max(0, depth + _depth_change(line))
        start = _ASSIGNMENT.match(script, at)
        if start is not None and depth == 0:
            value, is_default, end = _value(script, start)
            yield start.group(1), value, line[start.end() - at :], is_default
            line_end = max(end, line_end)
        at = line_end


def _depth_change(line: str) -> int:
    """Return 1 if a line opens a block of a shell script, -1 if it closes one, else 0."""
    return bool(_BLOCK_OPENS.match(line)) - bool(_BLOCK_CLOSES.match(line))


def _value(script: str, start: re.Match[str]) -> tuple[str | None, bool, int]:
    """Return the value of an assignment, whether it is a default, and where it ends."""
    default = _DEFAULT.match(script, start.end())
    if default is not None and default.group(1) == start.group(1):
        end = _END.match(script, default.end())
        return (_unquote(default.group(2)), True, end.end()) if end else (None, True, 0)
    literal = _VALUE.match(script, start.end())
    end = _END.match(script, literal.end()) if literal else None
    return (_unquote(literal.group()), False, end.end()) if literal and end else (None, False, 0)


def _unquote(literal: str) -> str:
    def plain(piece: re.Match[str]) -> str:
        single, double, escaped, bare = piece.groups()
        return _ESCAPED.sub(r"\1", double) if double is not None else single or escaped or bare or ""

    return _PIECE.sub(plain, literal)
