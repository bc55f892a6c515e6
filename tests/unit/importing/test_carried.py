from __future__ import annotations

import pytest

from hpcmod.importing.carried import Findings, carry_environment, report_binds_by_hand, shown_text
from hpcmod.importing.variables import Variables


def test_variables_that_an_easyconfig_can_set_are_returned() -> None:
    said = Findings()
    pairs = [("A", "a b"), ("B", ""), ("C", "${X}"), ("SIF", "x"), ("D-E", "x")]
    assert carry_environment(pairs, Variables({"X": "y"}), said, empty="it was unset") == [
        *(("A", "a b"), ("B", ""), ("C", "y"))
    ]
    assert said.changed[0] == "the variable B is empty in the container; it was unset"
    assert len(said.left_out) == 2
    assert "export" not in said.left_out[1]  # no shell can set a variable of this name


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("A", "${USER}-1", 'export SINGULARITYENV_A="${USER}-1"'),
        ("PATH", "${PATH}:/a b", 'export SINGULARITYENV_APPEND_PATH="/a b"'),
        (
            "PATH",
            "/a:${PATH}",
            'export SINGULARITYENV_PREPEND_PATH="/a:${SINGULARITYENV_PREPEND_PATH}" '
            'APPTAINERENV_PREPEND_PATH="/a:${SINGULARITYENV_PREPEND_PATH}"',
        ),
    ],
)
def test_a_line_for_the_shell_sets_the_others(name: str, value: str, line: str) -> None:
    said = Findings()
    assert carry_environment([(name, value)], Variables(complete=False), said, empty="") == []
    assert said.left_out[0].endswith(f"; after loading the module: {line}")
    assert said.changed == []


def test_one_line_for_the_shell_has_all_binds() -> None:
    said = Findings()
    report_binds_by_hand([], said)
    assert said.left_out == []
    report_binds_by_hand(["${A}:/a", "~/b:/b:z", "./c:/c:ro+private", "${D}/d.sqsh:/d:sqsh", "${E}:${E:-}"], said)
    assert said.left_out[0].endswith(
        'export SINGULARITY_BINDPATH="${A}:/a,${HOME}/b:/b,${PWD}/c:/c:ro,${D}/d.sqsh:/d:image-src=/,${E}:${E:-}"'
    )


@pytest.mark.parametrize("value", ["$(touch owned)", "`touch owned`", "${A}$(x)", "\\x", "$${A}", "${A:=$(x)}"])
def test_no_line_sets_what_the_runtime_would_run(value: str) -> None:
    said = Findings()
    carry_environment([("A", value)], Variables(complete=False), said, empty="")
    assert len(said.left_out) == 1
    assert "export" not in said.left_out[0]


def test_very_long_text_is_cut() -> None:
    assert shown_text("x") == "x"
    assert len(shown_text("x" * 10_000)) == 2003
