"""Evaluate the top-level assignments of a Python file without running any of it.

Easyconfigs are Python that EasyBuild runs. Those from other people are only parsed here: strings, f-strings, lists,
`+`, `%` and a few string methods, which cover most easyconfigs. Everything else stays unknown, and is reported so.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError

_LONGEST = 1 << 18  # characters in a string: doubling it forty times must not fill the memory
_MOST = 1 << 14  # elements including nested ones: lists that contain another twice, nested forty times, have 2**40
_METHODS = ("format", "join", "lower", "replace", "split", "strip", "upper")


@dataclass(frozen=True)
class StaticValues:
    """The names assigned at top level, with their last values."""

    known: Mapping[str, Any]
    """Strings, numbers, booleans, None, and lists, tuples and dictionaries of them."""
    unknown: Mapping[str, str]
    """Names whose value would require running the code, each with the reason."""


class _UnknownError(Exception):
    """A value that cannot be evaluated; the message says why."""


def read_static_values(text: str, where: str, *, constants: Mapping[str, Any] | None = None) -> StaticValues:
    """Evaluate the top-level assignments of a Python file.

    `where`: File name for messages.
    `constants`: Names that the program running the file would predefine.

    Raises BadInputError if it is not valid Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escape sequences are common in embedded shell scripts
            tree = ast.parse(text, "an easyconfig")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise BadInputError(f"{where}: not a valid easyconfig: {err}") from err
    known, unknown = dict(constants or {}), dict[str, str]()
    for node in tree.body:
        try:
            for name, value in _assigned(node, known):
                known[name] = value
                unknown.pop(name, None)
        except (_UnknownError, RecursionError) as err:
            for name in _names_set(node):
                known.pop(name, None)
                unknown[name] = str(err) or "it is nested too deeply"
    assigned = {name for node in tree.body for name in _names_set(node)}
    return StaticValues({name: constant for name, constant in known.items() if name in assigned}, unknown)


def _assigned(node: ast.stmt, names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(node, ast.Assign):
        value = _value(node.value, names)
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise _UnknownError(f"line {node.lineno} assigns to something other than a name")
            yield target.id, value
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and isinstance(node.op, ast.Add):
        if node.target.id not in names:
            raise _UnknownError(f"line {node.lineno} adds to an unknown value")
        yield node.target.id, _sum(names[node.target.id], _value(node.value, names))
    elif not isinstance(node, (ast.Expr, ast.Pass)):
        raise _UnknownError(f"line {node.lineno} would have to be run: {type(node).__name__}")


def _names_set(node: ast.AST) -> set[str]:
    """Return the names that a statement may assign."""
    names = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            if not isinstance(child.ctx, ast.Load):
                names.add(child.id)
        elif isinstance(child, ast.alias):
            names.add((child.asname or child.name).partition(".")[0])
        elif isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            names.add(child.name)
    return names


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    read = _READERS.get(type(node))
    if read is None:
        raise _UnknownError(f"line {node.lineno} would have to be run: {ast.unparse(node)[:60]}")
    return _bounded(read(node, names))


def _bounded(value: Any) -> Any:
    if isinstance(value, (str, bytes)) and len(value) > _LONGEST:
        raise _UnknownError("it grows too large")
    for number, _ in enumerate(_elements(value)):
        if number > _MOST:
            raise _UnknownError("it grows too large")
    return value


def _elements(value: Any) -> Iterator[Any]:
    """Yield all elements of a list, tuple or dictionary, including nested ones."""
    for element in (
        (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    ):
        yield element
        yield from _elements(element)


def _name(node: ast.Name, names: Mapping[str, Any]) -> Any:
    if node.id not in names:
        raise _UnknownError(f"line {node.lineno} uses {node.id}, which is not known")
    return names[node.id]


def _dict(node: ast.Dict, names: Mapping[str, Any]) -> dict[Any, Any]:
    if None in node.keys:
        raise _UnknownError(f"line {node.lineno} unpacks a dictionary")
    try:
        return {_value(key, names): _value(value, names) for key, value in zip(node.keys, node.values) if key}
    except TypeError as err:
        raise _UnknownError(f"line {node.lineno}: {err}") from err


def _joined(node: ast.JoinedStr, names: Mapping[str, Any]) -> str:
    parts = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue) and (part.conversion != -1 or part.format_spec is not None):
            raise _UnknownError(f"line {node.lineno} formats a value")
        parts.append(_shown(_value(part.value if isinstance(part, ast.FormattedValue) else part, names)))
    return _concatenated(parts)


def _concatenated(parts: Iterable[str]) -> str:
    """Concatenate strings unless the result gets too long: the same large string may occur a thousand times."""
    kept, length = [], 0
    for part in parts:
        length += len(part)
        if length > _LONGEST:
            raise _UnknownError("it grows too large")
        kept.append(part)
    return "".join(kept)


def _shown(value: Any) -> str:
    if not isinstance(value, (str, int, float)):
        raise _UnknownError(f"a {type(value).__name__} is used in a string")
    try:
        return str(value)
    except ValueError as err:  # more digits than Python converts to a string
        raise _UnknownError(str(err)) from err


def _operation(node: ast.BinOp, names: Mapping[str, Any]) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    if isinstance(node.op, ast.Add):
        return _sum(left, right)
    if isinstance(node.op, ast.Mod) and isinstance(left, str):
        return _percent(left, right)
    raise _UnknownError(f"line {node.lineno} calculates")


def _negative(node: ast.UnaryOp, names: Mapping[str, Any]) -> int:
    value = _value(node.operand, names)
    if isinstance(node.op, ast.USub) and isinstance(value, int):
        return -value
    raise _UnknownError(f"line {node.lineno} calculates")


def _sum(left: Any, right: Any) -> Any:
    if type(left) is not type(right) or not isinstance(left, (str, list, tuple)):
        raise _UnknownError(f"a {type(right).__name__} is added to a {type(left).__name__}")
    return _bounded(left + right)


def _percent(text: str, right: Any) -> str:
    """Substitute %s, %d and %(name)s, but not field widths, which could make a string arbitrarily long."""
    if isinstance(right, dict):
        return _filled(r"%(?:\((\w+)\)s|(%)|)", text, lambda match: match[2] or _shown(_item(right, match[1])))
    values = iter(right if isinstance(right, tuple) else (right,))
    return _filled(r"%([sd%]?)", text, lambda match: "%" if match[1] == "%" else _next(values, match[1]))


def _filled(pattern: str, text: str, fill: Callable[[re.Match[str]], str]) -> str:
    """Replace each match by the result of a function."""

    def parts() -> Iterator[str]:
        end = 0
        for match in re.finditer(pattern, text):
            yield text[end : match.start()]
            yield fill(match)
            end = match.end()
        yield text[end:]

    return _concatenated(parts())


def _next(values: Iterator[Any], kind: str) -> str:
    return _shown(next(values, None) if kind else None)


def _subscript(node: ast.Subscript, names: Mapping[str, Any]) -> Any:
    container = _value(node.value, names)
    if not isinstance(node.slice, ast.Slice):
        return _item(container, _value(node.slice, names))
    ends = (node.slice.lower, node.slice.upper, node.slice.step)
    return _item(container, slice(*(None if end is None else _whole_number(_value(end, names)) for end in ends)))


def _whole_number(value: Any) -> int:
    if isinstance(value, int):
        return value
    raise _UnknownError(f"a {type(value).__name__} is used as an index")


def _item(container: Any, key: Any) -> Any:
    try:
        return container[key]
    except (LookupError, TypeError, ValueError) as err:
        raise _UnknownError(f"no element {key!r}") from err


def _call(node: ast.Call, names: Mapping[str, Any]) -> Any:
    """Call one of the harmless string methods."""
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr not in _METHODS:
        raise _UnknownError(f"line {node.lineno} would have to be run: {ast.unparse(node)[:60]}")
    text = _value(method.value, names)
    arguments = [_value(argument, names) for argument in node.args]
    named = {argument.arg or "": _value(argument.value, names) for argument in node.keywords}
    if not isinstance(text, str):
        raise _UnknownError(f"line {node.lineno} calls a method of a {type(text).__name__}")
    if method.attr == "format":
        return _format(text, arguments, named)
    if named or _length_after(method.attr, text, arguments) > _LONGEST:
        raise _UnknownError(f"line {node.lineno} would have to be run")
    try:
        return getattr(text, method.attr)(*arguments)
    except (TypeError, ValueError) as err:
        raise _UnknownError(f"line {node.lineno}: {err}") from err


def _length_after(method: str, text: str, arguments: list[Any]) -> int:
    """Return the maximum length of a method's result, in characters."""
    if method == "replace" and [type(argument) for argument in arguments] == [str, str]:
        return len(text) + text.count(arguments[0]) * len(arguments[1])
    if method == "join" and [type(argument) for argument in arguments] in ([list], [tuple]):
        return sum(len(text) + len(_shown(argument)) for argument in arguments[0])
    if method in ("replace", "join"):
        raise _UnknownError(f"{method} is called with unsupported arguments")
    return len(text)


def _format(text: str, arguments: list[Any], named: Mapping[str, Any]) -> str:
    """Substitute {}, {0} and {name}; other replacement fields could access this program's objects."""
    values = iter(arguments)

    def fill(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        if match[1] is None:
            raise _UnknownError("a string uses unsupported formatting")
        if not match[1]:
            return _next(values, "s")
        return _shown(_item(arguments, int(match[1])) if match[1].isdecimal() else _item(named, match[1]))

    return _filled(r"\{\{|\}\}|\{(\w*)\}|[{}]", text, fill)


_READERS: Mapping[type[ast.expr], Callable[[Any, Mapping[str, Any]], Any]] = {
    ast.Constant: lambda node, names: node.value,
    ast.Name: _name,
    ast.List: lambda node, names: [_value(element, names) for element in node.elts],
    ast.Tuple: lambda node, names: tuple(_value(element, names) for element in node.elts),
    ast.Dict: _dict,
    ast.JoinedStr: _joined,
    ast.BinOp: _operation,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.UnaryOp: _negative,
}
