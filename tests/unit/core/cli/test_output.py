from __future__ import annotations

import pytest

from hpcmod.core.cli.output import (
    format_size,
    print_data,
    print_message,
    print_table,
    print_text,
    print_wrapped,
    render_table,
    tell,
)

HEADERS = ("MODULE", "STATE", "NOTES")
ROWS = [
    ("PyTorch/2.7.1-rocm-6.2.4-singularity", "ready", "stable,latest; yours, but the site's is used: hpcmod info"),
    ("Tool/1.0", "available", ""),
]


def test_a_pipe_gets_rows_alone_each_on_one_line() -> None:
    assert list(render_table(HEADERS, ROWS, width=None)) == [
        "PyTorch/2.7.1-rocm-6.2.4-singularity  ready      stable,latest; yours, but the site's is used: hpcmod info",
        "Tool/1.0                              available",
    ]


def test_a_wide_terminal_gets_a_header() -> None:
    lines = list(render_table(HEADERS, ROWS, width=120))
    assert lines[0] == "MODULE                                STATE      NOTES"
    assert len(lines) == 3
    assert list(render_table(HEADERS, [], width=80)) == []
    lines = list(render_table(HEADERS, ROWS, width=80))  # the wrapped last column stays in its column
    assert lines[2].startswith(" " * lines[0].index("NOTES") + "site's is used")


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_cut(width: int) -> None:
    lines = list(render_table(HEADERS, ROWS, width=width))
    assert max(map(len, lines)) <= width
    assert " ".join(lines).split() and set(" ".join(lines).split()) == {
        word for row in (HEADERS, *ROWS) for cell in row for word in cell.split()
    }


def test_columns_that_do_not_fit_go_below_the_first() -> None:
    lines = list(render_table(HEADERS, ROWS, width=50))
    assert lines[:4] == ["MODULE", "    STATE  NOTES", "PyTorch/2.7.1-rocm-6.2.4-singularity", lines[3]]
    assert lines[3].startswith("    ready  stable,latest;")


HOSTILE = "a\x1b]0;b\x07\u202ec"


def test_text_and_messages_are_cleaned_of_control_and_bidirectional_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_text(HOSTILE)
    print_message(HOSTILE)
    tell(HOSTILE)
    written = capsys.readouterr()
    print_table(("A",), [("x\x1b[31m\ny",)])
    print_wrapped("a\x1bb")
    assert capsys.readouterr().out == "x?[31m y\na?b\n"
    assert written.out == "a?]0;b??c\n"
    assert written.err == "a?]0;b??c\nhpcmod: a?]0;b??c\n"


def test_data_is_unchanged_in_a_pipe_and_cleaned_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_data(HOSTILE)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_data(HOSTILE)
    assert capsys.readouterr().out == f"{HOSTILE}\na?]0;b??c\n"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "?"), (12, "12 B"), (1500, "1.5 kB"), (86_200_000, "86.2 MB"), (7 * 10**9, "7.0 GB")]
)
def test_a_size_has_the_unit_that_fits(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("more", "first"), [({}, "\x1b[31mfail\x1b[0m"), ({"NO_COLOR": "1"}, "fail"), ({"TERM": "dumb"}, "fail")]
)
def test_the_level_of_a_finding_has_a_colour_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, more: dict[str, str], first: str
) -> None:
    print_wrapped("fail eb: not on PATH")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_wrapped("fail eb: not on PATH")
    print_wrapped("failing is no level")
    assert capsys.readouterr().out == f"fail eb: not on PATH\n{first} eb: not on PATH\nfailing is no level\n"
