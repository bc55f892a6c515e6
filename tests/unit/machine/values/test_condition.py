from __future__ import annotations

import pytest

from hpcmod.machine.values.condition import ALWAYS, Bound, Condition


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        pytest.param("always", ALWAYS, id="always"),
        pytest.param("multi-node", Condition(multi_node=True), id="multi-node"),
        pytest.param("rocm>=6.2", Condition(bounds=(Bound("rocm", ">=", "6.2"),)), id="one bound"),
        pytest.param(
            "multi-node, rocm >= 6.2,rocm<7",
            Condition(multi_node=True, bounds=(Bound("rocm", ">=", "6.2"), Bound("rocm", "<", "7"))),
            id="all together",
        ),
    ],
)
def test_parses_what_it_prints(text: str, condition: Condition) -> None:
    assert Condition.parse(text) == condition
    assert Condition.parse(str(condition)) == condition


@pytest.mark.parametrize(
    "text", ["", "sometimes", "rcom>6", "rocm", "rocm~6", "rocm>=six", "always, rocm>6", "rocm>6,"]
)
def test_refuses_an_invalid_condition_and_shows_a_valid_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"rocm>=6\.2"):
        Condition.parse(text)


@pytest.mark.parametrize(
    ("text", "holds"),
    [("multi-node", (False, True)), ("single-node, rocm>=6", (True, False)), ("cuda<13", (True, True))],
)
def test_distinguishes_numbers_of_nodes(text: str, holds: tuple[bool, bool]) -> None:
    assert (Condition.parse(text).holds_on(1), Condition.parse(text).holds_on(2)) == holds


def test_no_step_is_on_one_node_and_on_several() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        Condition.parse("multi-node, single-node")


@pytest.mark.parametrize(
    ("text", "version", "holds"),
    [
        ("rocm>=6.2", "6.2.4", True),
        ("rocm>=6.2", "6.10", True),
        ("rocm>=6.2", "6.1.3", False),
        ("rocm<7", "6.4.4-rc1", True),
        ("rocm<7", "7.0", False),
        ("rocm==6.2", "6.2.0", True),
        ("rocm>6.2", "6.2.0", False),
        ("rocm<=6.2", "6.2", True),
        ("cuda>=12", "6.2", False),
        ("always", "", True),
        ("multi-node", "", True),
    ],
)
def test_versions_are_compared_number_by_number(text: str, version: str, holds: bool) -> None:
    assert Condition.parse(text).holds_for({"rocm": version}) is holds


@pytest.mark.parametrize("versions", [{}, {"rocm": ""}, {"rocm": "unknown"}])
def test_a_version_that_is_not_known_holds_to_nothing(versions: dict[str, str]) -> None:
    assert not Condition.parse("rocm<7").holds_for(versions)
    assert not Condition.parse("rocm>=1").holds_for(versions)
