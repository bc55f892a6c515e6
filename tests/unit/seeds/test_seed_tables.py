"""The five documents that hpcmod was measured against: each row of their tables holds, or says who else does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeds import Row, check, is_test, read_accounted, read_rows

TABLES = sorted(Path(__file__).parent.glob("*.toml"))
ROWS = [
    pytest.param(one, id=f"{path.stem.upper()}{one.number} {one.what}") for path in TABLES for one in read_rows(path)
]


@pytest.mark.parametrize("one", ROWS)
@pytest.mark.slow
def test_a_row_holds(one: Row) -> None:
    check(one)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_row_is_accounted_for_once(path: Path) -> None:
    numbers, size = read_accounted(path)
    assert numbers == list(range(1, size + 1))


def test_a_text_that_is_missing_or_a_missing_test_is_noticed() -> None:
    for wrong in (
        Row(1, "a text", "binds lumi", has=("/no/such/place",)),
        Row(2, "a text too many", "binds lumi", lacks=("/opt/cray",)),
        Row(3, "a test", tests=("tests/unit/seeds/test_seed_tables.py::test_nothing",)),
        Row(4, "nothing"),
    ):
        with pytest.raises(AssertionError):
            check(wrong)
    assert is_test("tests/unit/seeds/test_seed_tables.py::test_a_row_holds")
