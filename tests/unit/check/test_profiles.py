from __future__ import annotations

import pytest

from hpcmod import resources
from hpcmod.check.profiles import lint_profile
from hpcmod.model.finding import FAIL

WRONG = """name = "here"
[gpu]
vendr = "amd"
per_rank = "two"
"""


def test_each_error_in_a_profile_has_its_line_and_rule() -> None:
    found = lint_profile(WRONG, "site.toml")
    assert [(one.level, one.line, one.rule) for one in found] == [
        (FAIL, 3, "unknown-key"),
        (FAIL, 4, "invalid-value"),
    ]
    assert found[0].found == "gpu.vendr: unknown key, did you mean gpu.vendor?"
    assert all(one.cure for one in found)


def test_an_error_about_the_whole_profile_is_reported_for_line_1() -> None:
    (found,) = lint_profile('[gpu]\nvendor = "amd"\n', "site.toml")
    assert (found.line, found.rule, found.found) == (1, "invalid-value", "name: missing")


def test_invalid_toml_is_one_finding() -> None:
    (found,) = lint_profile("name = ", "site.toml")
    assert (found.rule, found.line) == ("does-not-load", 1)
    assert "not valid TOML" in found.found


@pytest.mark.parametrize("name", sorted(resources.site_profiles()))
def test_a_shipped_profile_has_no_errors(name: str) -> None:
    assert lint_profile(resources.site_profiles()[name], f"{name}.toml") == ()
