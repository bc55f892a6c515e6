"""Read pickles that hold plain values only: nothing is imported, called or built, whatever the bytes say.

A pickle is a program, which can name any function to call. So each of its opcodes is compared first with those of
dictionaries, lists, tuples, strings, numbers, None and truth values.
"""

from __future__ import annotations

import pickle
import pickletools
import re
from typing import Any

from hpcmod.core.errors import BadInputError

_PLAIN = re.compile(
    r"PROTO|FRAME|STOP|MARK|NONE|NEWTRUE|NEWFALSE|BININT[12]?|LONG1|BINFLOAT|(?:SHORT_)?BINUNICODE8?"
    r"|EMPTY_(?:DICT|LIST|TUPLE)|TUPLE[123]?|LIST|APPENDS?|SETITEMS?|(?:LONG_)?BIN(?:PUT|GET)|MEMOIZE"
)
"""Names of the opcodes of plain values, as in `pickletools.opcodes`."""

_DAMAGED = (pickle.UnpicklingError, ValueError, LookupError, TypeError, AttributeError, EOFError, RecursionError)


def parse_plain_pickle(data: bytes, where: str) -> Any:
    """Return the value of a pickle.

    `where`: Its file, for the message.

    Raises BadInputError if it is damaged, or holds anything but plain values.
    """
    try:
        _check_opcodes(data)
        return pickle.loads(data)  # noqa: S301 - names no function to call
    except _DAMAGED as err:
        raise BadInputError(f"{where}: not a pickle of plain values: {str(err)[:200]}") from err


def _check_opcodes(data: bytes) -> None:
    stored = 0
    for opcode, argument, position in pickletools.genops(data):
        if not _PLAIN.fullmatch(opcode.name):
            raise ValueError(f"opcode {opcode.name} at {position} is not one of plain values")
        if opcode.name in ("BINPUT", "LONG_BINPUT") and (argument or 0) > stored:
            # `pickle` allocates memory for the highest number under which a value is stored
            raise ValueError(f"value {argument} at {position} is stored before value {stored}")
        stored += opcode.name in ("BINPUT", "LONG_BINPUT", "MEMOIZE")
