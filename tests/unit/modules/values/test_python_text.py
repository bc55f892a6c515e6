from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.python_text import assign_strings, source_lines

SHA256 = "ab" * 32
BREAKS = ("\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
"""Characters that end a line for str.splitlines, but not for Python."""


@pytest.mark.parametrize("character", BREAKS)
def test_a_character_that_does_not_end_a_python_line_does_not_shift_lines(character: str) -> None:
    text = f"# a{character}b\nname = 'x{character}y'\nchecksums = [None]\nwrapped_commands = ['python']\n"
    found = assign_strings(text, "checksums", [SHA256])
    assert found == text.replace("[None]", f"['{SHA256}']")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1; checksums = [None]; b = 2\n", f"a = 1; checksums = ['{SHA256}']; b = 2\n"),
        ("d = 'ä€😀'; checksums = [None]  # c\n", f"d = 'ä€😀'; checksums = ['{SHA256}']  # c\n"),
        ("checksums = [\n  None,\n]\rb = 1\r\n", f"checksums = ['{SHA256}']\rb = 1\r\n"),
        ("checksums = [None]\nchecksums = ['x']\n", f"checksums = ['{SHA256}']\nchecksums = ['{SHA256}']\n"),
        ("a = 1", f"a = 1\n\nchecksums = ['{SHA256}']\n"),
    ],
)
def test_only_the_assignment_is_rewritten(text: str, expected: str) -> None:
    assert assign_strings(text, "checksums", [SHA256]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "checksums = []\nchecksums += [None]\n",
        "if True:\n    checksums = [None]\n",
        "a = checksums = [None]\n",
        "checksums, b = [None], 1\n",
        "checksums: list = [None]\n",
    ],
)
def test_a_value_that_cannot_be_rewritten_is_overridden_at_the_end(text: str) -> None:
    values: dict[str, object] = {}
    exec(assign_strings(text, "checksums", [SHA256]), values)  # noqa: S102 - the five texts above
    assert values["checksums"] == [SHA256]


def test_text_that_is_not_python_is_refused() -> None:
    with pytest.raises(BadInputError):
        assign_strings("a = (", "checksums", [SHA256])


@given(st.text(alphabet=st.sampled_from([*BREAKS, "\n", "\r", "a", "#", " "])))
def test_lines_are_counted_as_python_counts_them(text: str) -> None:
    assert "".join(source_lines(text)) == text
    lines = source_lines(text + "\nx = 1")
    assert lines[ast.parse(_comments(text) + "\nx = 1").body[-1].lineno - 1] == "x = 1"


def _comments(text: str) -> str:
    """Return a text with the same line endings in which every line is a comment."""
    return "".join("#" + line.replace("\x00", "") for line in source_lines(text))
