from __future__ import annotations

import json
from typing import Any

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.packages.state import parse_state, render_state
from tests.package_states import EINOPS, NEEDY, make_state

STATE = make_state(3, EINOPS, NEEDY, parent=2, allowed=("numpy",), from_image=("torch==2.7.1",))


def test_a_record_is_read_as_it_was_written() -> None:
    assert parse_state(render_state(STATE), "x") == STATE
    assert STATE.names == {"einops", "needy"}
    assert STATE.find("Einops") == EINOPS
    assert EINOPS.pin == "einops==0.8.1"


@pytest.mark.parametrize(
    "change",
    [
        {"state": 2},
        {"number": "x"},
        {"locked": [{"name": "x"}]},
        {"locked": [{"name": "x", "version": "1", "sha256": "short", "url": "", "size": 0, "since": ""}]},
        {"requirements": "einops"},
        {"module": 1},
    ],
)
def test_damaged_records_are_refused(change: dict[str, Any]) -> None:
    values = {**json.loads(render_state(STATE)), **change}
    with pytest.raises(BadInputError):
        parse_state(json.dumps(values), "x")


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[" * 100_000])
def test_an_invalid_record_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_state(text, "x")
