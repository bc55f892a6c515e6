from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.core.resources import site_profiles
from hpcmod.core.text.toml import render_toml
from hpcmod.core.values.documents import load_toml
from hpcmod.machine.machine import find_machine
from hpcmod.machine.values.profile import make_site, merge_written, parse_profile


@pytest.mark.parametrize("name", site_profiles())
def test_a_profile_is_read_back_as_the_same_site(name: str) -> None:
    profiles = find_machine(None, {}, flag=name).profiles
    text = render_toml(merge_written(profiles))
    again = parse_profile(text, "printed")
    assert "extends" not in text
    assert merge_written([again]) == merge_written(profiles)
    assert make_site([again]) == make_site(profiles)


SCALARS = st.one_of(st.text(), st.booleans(), st.integers(-(2**62), 2**62), st.lists(st.text(), max_size=3))
NAMES = st.text(min_size=1)


@given(
    st.dictionaries(
        NAMES, st.one_of(SCALARS, st.dictionaries(NAMES, st.one_of(SCALARS, st.dictionaries(NAMES, SCALARS))))
    )
)
def test_any_values_are_read_back(values: dict[str, Any]) -> None:
    assert load_toml(render_toml(values), "printed") == values


def test_long_arrays_have_one_item_a_line() -> None:
    assert render_toml({"a": ["x" * 70, "y" * 70]}).count("\n") == 4
