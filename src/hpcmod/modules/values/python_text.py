"""Edit Python source text at the positions that Python reports.

Python ends a line at `\\n`, `\\r\\n` and `\\r` only. `str.splitlines` also does at form feeds, U+2028 and others, so
that line numbers of `ast` applied to its result cut the text at the wrong places.
"""

from __future__ import annotations

import ast
import re

from hpcmod.modules.values.static_values import read_static_values

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def source_lines(text: str) -> list[str]:
    """Return the lines of Python source as Python counts them, each with its line end."""
    return _LINE.findall(text)


def assign_strings(text: str, name: str, values: list[str]) -> str:
    """Return Python source in which a name is assigned a list of strings; everything else is unchanged.

    Every plain assignment of the name at the top level is rewritten. If that is not enough (there is none, or `+=` or a
    condition follows), an assignment is appended.

    Raises BadInputError if the text is not valid Python.
    """
    read_static_values(text, "the easyconfig")
    data = text.encode("utf-8", "surrogatepass")
    starts = _line_starts(text)
    literal = f"{name} = {values!r}"
    nodes = [node for node in ast.parse(text).body if _assigns(node, name)]
    for node in reversed(nodes):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        data = data[:begin] + literal.encode() + data[end:]
    new = data.decode("utf-8", "surrogatepass")
    if read_static_values(new, "the easyconfig").known.get(name) == values:
        return new
    return f"{new}{'' if new.endswith(chr(10)) else chr(10)}\n{literal}\n"  # the last assignment wins


def _line_starts(text: str) -> list[int]:
    """Return the offset of each line in the UTF-8 bytes: `ast` counts columns in bytes."""
    starts = [0]
    for line in source_lines(text):
        starts.append(starts[-1] + len(line.encode("utf-8", "surrogatepass")))
    return starts


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]
