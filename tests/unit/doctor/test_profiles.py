from __future__ import annotations

import pytest

from hpcmod.core import resources
from hpcmod.core.values.finding import FAIL
from hpcmod.doctor.profiles import check_profile, lint_profile

WRONG = """name = "here"
[gpu]
vendr = "amd"
per_rank = "two"
"""


def test_each_error_in_a_profile_has_its_line_and_rule() -> None:
    found = lint_profile(WRONG, "site.toml")
    assert [(one.level, one.line, one.rule) for one in found] == [(FAIL, 3, "unknown-key"), (FAIL, 4, "invalid-value")]
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


def test_a_value_without_a_comment_has_no_source() -> None:
    text = 'name = "x"\n\n[nodes.gpu]\n# the handbook\ncores = 8\ngpus = 2\n\n[job]\nslurm = "24.11"\n'
    found = check_profile(text, "x.toml")
    assert [(one.level, one.rule, one.line) for one in found] == [("warn", "no-source", 9), ("ok", "profile", 0)]
    assert found[-1].found == "3 values, 2 with a comment about their source"


def test_a_profile_that_is_not_valid_does_not_pass() -> None:
    found = check_profile('name = "x"\ncolour = "red"\n', "x.toml")
    assert found[0].level == "fail"
    assert "ok" not in {one.level for one in found}
