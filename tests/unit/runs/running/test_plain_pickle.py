from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from typing import Any

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.runs.running.plain_pickle import parse_plain_pickle

VALUES: list[Any] = [
    {"a": [1, -2, 300, 70000, 1 << 40, 2.5, None, True, False], "b": ("x", ("y", "z"), (1, 2, 3, 4)), "c": {}},
    [],
    ["same", "same", {"k": "same"}],
    "é" * 300,
]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_plain_values_are_read_as_python_does(value: Any, protocol: int) -> None:
    assert parse_plain_pickle(pickle.dumps(value, protocol), "x") == value


class Harmful:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("false",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Harmful()),
        pickle.dumps(OrderedDict(a=1)),
        b"cos\nsystem\n(S'id'\ntR.",
        b"\x80\x02X\xff\xff\xff\xffa.",
        b"\x80\x02]h\x07.",
        b"\x80\x02a.",
        b"\x80\x02}((ee.",
        b"\x80\x02}K\x01K\x02e.",
        b"\x80\x02}(]K\x01u.",
        b"",
        b"\x80\x02(((",
        b"\x80\x02]r\xff\xff\xff\xff.",  # Python's unpickler would allocate memory for the highest number
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(BadInputError, match=r"dump_0: not a pickle of plain values"):
        parse_plain_pickle(data, "dump_0")
