"""Read pickles that hold plain values only: nothing is imported, called or built, whatever the bytes say.

Python's own `pickle` runs code that a pickle names, and even of plain values it takes what memory and recursion the
file asks for, so it never reads files of others here. This reader knows the opcodes of dictionaries, lists, tuples,
strings, numbers, None and truth values, and refuses all others.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

from hpcmod.core.errors import BadInputError

_MOST = 20_000_000  # values on the stack or remembered
_MARK = object()


def parse_plain_pickle(data: bytes, where: str) -> Any:
    """Return the value of a pickle.

    `where`: Its file, for the message.

    Raises BadInputError if it is damaged, or holds anything but plain values.
    """
    try:
        return _Machine().run(data)
    except (ValueError, IndexError, KeyError, TypeError) as err:
        raise BadInputError(f"{where}: not a pickle of plain values: {str(err)[:200]}") from err


class _Machine:
    """Stack and memory of the pickle language."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, at in pickletools.genops(data):
            if opcode.name == "STOP":
                break
            if opcode.name in _WITH_VALUE:
                self.push(argument)
            elif opcode.name in _OPCODES:
                _OPCODES[opcode.name](self, argument)
            else:
                raise ValueError(f"opcode {opcode.name} at {at} is not one of plain values")
            if len(self.stack) > _MOST or len(self.memory) > _MOST:
                raise ValueError("too many values")
        return self.stack.pop()

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        """Take the values above the last mark."""
        values: list[Any] = []
        while True:
            value = self.stack.pop()
            if value is _MARK:
                return values[::-1]
            values.append(value)

    def push_tuple(self, count: int) -> None:
        """Make a tuple of the last values."""
        values = [self.stack.pop() for _ in range(count)]
        self.push(tuple(values[::-1]))

    def append(self, values: list[Any]) -> None:
        """Add values to the list on the stack."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise ValueError("values for what is not a list")
        target.extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Add keys and values to the dictionary on the stack."""
        target = self.stack[-1]
        if not isinstance(target, dict) or len(values) % 2:
            raise ValueError("keys and values for what is not a dictionary")
        for key, value in zip(values[::2], values[1::2]):
            if not isinstance(key, (str, int)):
                raise ValueError("a key that is neither text nor a number")
            target[key] = value

    def remember(self, index: int) -> None:
        """Store the value on the stack under a number."""
        self.memory[index] = self.stack[-1]


_WITH_VALUE = frozenset(
    ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
)
"""Opcodes whose argument is a value."""

_OPCODES: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "MARK": lambda machine, _: machine.push(_MARK),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "TUPLE1": lambda machine, _: machine.push_tuple(1),
    "TUPLE2": lambda machine, _: machine.push_tuple(2),
    "TUPLE3": lambda machine, _: machine.push_tuple(3),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "LIST": lambda machine, _: machine.push(machine.since_mark()),
    "APPEND": lambda machine, _: machine.append([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop() for _ in range(2)][::-1]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memory)),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda machine, index: machine.remember(index)),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, index: machine.push(machine.memory[index])),
}
"""What each other opcode of a plain value does (pickletools.opcodes)."""
