"""Read pickles that hold plain values only: nothing is imported, called or built, whatever the bytes say.

Python's own `pickle` runs code that a pickle names, and even of plain values it takes what memory and recursion the
file asks for, so it never reads files of others here. This reader knows the opcodes of dictionaries, lists, tuples,
strings, numbers, None and truth values (pickletools), and refuses all others.
"""

from __future__ import annotations

import struct
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
        return _Machine(data).run()
    except (ValueError, IndexError, KeyError, TypeError, struct.error, UnicodeDecodeError) as err:
        raise BadInputError(f"{where}: not a pickle of plain values: {str(err)[:200]}") from err


class _Machine:
    """Stack and memory of the pickle language."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            opcode = self._take(1)
            if opcode == b".":
                return self.stack.pop()
            act = _OPCODES.get(opcode)
            if act is None:
                raise ValueError(f"opcode {opcode!r} at {self.at - 1} is not one of plain values")
            act(self)
            if len(self.stack) > _MOST or len(self.memory) > _MOST:
                raise ValueError("too many values")

    def _take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise ValueError(f"ends at {len(self.data)}, in the middle of a value")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, layout: str) -> int:
        """Read a little-endian number of a layout of `struct`."""
        return int(struct.unpack(layout, self._take(struct.calcsize(layout)))[0])

    def skip(self, layout: str) -> None:
        """Read a number that is not needed: the version, or the length of a frame."""
        self.number(layout)

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def push_text(self, layout: str) -> None:
        """Read a length and a string."""
        self.push(self._take(self.number(layout)).decode("utf-8", errors="replace"))

    def push_long(self) -> None:
        """Read a length and a number."""
        self.push(int.from_bytes(self._take(self.number("<B")), "little", signed=True))

    def push_float(self) -> None:
        """Read a big-endian double."""
        self.push(struct.unpack(">d", self._take(8))[0])

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


_OPCODES: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda machine: machine.skip("<B"),
    b"\x95": lambda machine: machine.skip("<Q"),
    b"(": lambda machine: machine.push(_MARK),
    b"}": lambda machine: machine.push({}),
    b"]": lambda machine: machine.push([]),
    b")": lambda machine: machine.push(()),
    b"N": lambda machine: machine.push(None),
    b"\x88": lambda machine: machine.push(True),
    b"\x89": lambda machine: machine.push(False),
    b"K": lambda machine: machine.push(machine.number("<B")),
    b"M": lambda machine: machine.push(machine.number("<H")),
    b"J": lambda machine: machine.push(machine.number("<i")),
    b"\x8a": _Machine.push_long,
    b"G": _Machine.push_float,
    b"X": lambda machine: machine.push_text("<I"),
    b"\x8c": lambda machine: machine.push_text("<B"),
    b"\x8d": lambda machine: machine.push_text("<Q"),
    b"\x85": lambda machine: machine.push_tuple(1),
    b"\x86": lambda machine: machine.push_tuple(2),
    b"\x87": lambda machine: machine.push_tuple(3),
    b"t": lambda machine: machine.push(tuple(machine.since_mark())),
    b"l": lambda machine: machine.push(machine.since_mark()),
    b"a": lambda machine: machine.append([machine.stack.pop()]),
    b"e": lambda machine: machine.append(machine.since_mark()),
    b"s": lambda machine: machine.set_items([machine.stack.pop() for _ in range(2)][::-1]),
    b"u": lambda machine: machine.set_items(machine.since_mark()),
    b"q": lambda machine: machine.remember(machine.number("<B")),
    b"r": lambda machine: machine.remember(machine.number("<I")),
    b"\x94": lambda machine: machine.remember(len(machine.memory)),
    b"h": lambda machine: machine.push(machine.memory[machine.number("<B")]),
    b"j": lambda machine: machine.push(machine.memory[machine.number("<I")]),
}
"""What each opcode of a plain value does (pickletools.opcodes)."""
