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
        b"\x80\x04})" + b"\x85" * 200_000 + b"Ns.",  # Python's unpickler would overflow the stack at this key
        b"\x80\x02}N" + b"2\x86" * 60 + b"Ns.",
        b"\x80\x02})" + b"\x94h\x00\x86" * 3 + b"Ns.",
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(BadInputError, match=r"dump_0: not a pickle of plain values"):
        parse_plain_pickle(data, "dump_0")


@pytest.mark.parametrize("data", [b"\x80\x02]r\xff\xff\xff\xff.", b"\x80\x04\x95" + b"\xff" * 8 + b"]."])
def test_numbers_in_a_pickle_ask_for_no_memory(data: bytes) -> None:
    assert parse_plain_pickle(data, "dump_0") == []
