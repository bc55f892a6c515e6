from __future__ import annotations

import pytest

from hpcmod.errors import BadInputError
from hpcmod.importing.variables import Variables

VALUES = {"A": "a", "EMPTY": "", "B": "${A}"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x${A}y$A", "xaya"),
        ("${B}", "${A}"),
        ("$${A} $$A $$$A", "${A} $A $a"),
        ("${NONE:-d} ${NONE-d} ${EMPTY:-d} ${EMPTY-d}", "d d d "),
        ("${NONE:-}", ""),
        ("${NONE:-${A}} ${NONE:-${OTHER:-${A}}}", "a a"),
        ("${A:+yes}${NONE:+no}${EMPTY:+no}${EMPTY+yes}", "yesyes"),
        ("${A:?needed}${EMPTY?needed}", "a"),
        ("100$ $ $1 $", "100$ $ $1 $"),
        ("", ""),
    ],
)
def test_variables_are_replaced(text: str, expected: str) -> None:
    assert Variables(VALUES).substitute(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${NONE}", "is not set"),
        ("$NONE", "is not set"),
        ("${NONE:?set it}", "set it"),
        ("${EMPTY:?set it}", "set it"),
        ("${A", "no closing brace"),
        ("${A/x/y}", "cannot|can be replaced"),
        ("${}", "can be replaced"),
        ("${NONE:-" * 30 + "}" * 30, "nested too deeply"),
    ],
)
def test_what_has_no_value_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        Variables(VALUES).substitute(text)


@pytest.mark.parametrize("text", ["${A}", "${A:-}", "${A:-d}", "${A:+d}"])
def test_an_unknown_environment_decides_nothing(text: str) -> None:
    with pytest.raises(BadInputError, match=r"depends on \$\{A\}"):
        Variables(complete=False).substitute(text)


def test_without_braces_it_may_not_be_a_variable() -> None:
    with pytest.raises(BadInputError, match=r"write \$\{A\}"):
        Variables(VALUES, bare=False).substitute("$A")
