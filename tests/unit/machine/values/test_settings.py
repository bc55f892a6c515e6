"""Explaining the variables of a profile: set, not set, or what that depends on."""

from __future__ import annotations

import pytest

from hpcmod.machine.values.condition import Condition
from hpcmod.machine.values.settings import DEPENDS, NOT_SET, SET, explain_settings
from hpcmod.machine.values.site import Tunable


@pytest.mark.parametrize(
    ("when", "versions", "nodes", "verdict", "because"),
    [
        pytest.param("always", None, 0, SET, "", id="always"),
        pytest.param("multi-node", None, 0, DEPENDS, "on several nodes", id="unknown number of nodes"),
        pytest.param("multi-node", None, 2, SET, "on several nodes", id="several nodes"),
        pytest.param("multi-node", None, 1, NOT_SET, "only on several nodes", id="one node"),
        pytest.param("single-node", None, 2, NOT_SET, "only on one node", id="several nodes, for one only"),
        pytest.param("rocm<7", None, 1, DEPENDS, "with rocm<7 in the image", id="no image"),
        pytest.param("rocm<7", {"rocm": "6.2.4"}, 1, SET, "rocm<7", id="fitting image"),
        pytest.param("rocm<7", {"rocm": "7.0"}, 1, NOT_SET, "rocm is 7.0, not rocm<7", id="other image"),
        pytest.param(
            "plugin>=1", {}, 1, NOT_SET, "only for plugin>=1, but the image's version is not known", id="unknown"
        ),
    ],
)
def test_a_setting_is_explained(
    when: str, versions: dict[str, str] | None, nodes: int, verdict: str, because: str
) -> None:
    (one,) = explain_settings([Tunable("A", "1", Condition.parse(when), "good")], versions=versions, nodes=nodes)
    assert (one.verdict, one.because, one.why) == (verdict, because, "good")


def test_sets_the_first_case_that_is_true() -> None:
    cases = [Tunable("A", value, Condition.parse(when)) for value, when in (("1", "rocm<7"), ("2", "always"))]
    told = [(one.value, one.verdict) for one in explain_settings(cases, versions={"rocm": "6.2"})]
    assert told == [("1", SET), ("2", NOT_SET)]
