from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.catalogue.journal import (
    Change,
    Records,
    find_undoable,
    make_edits,
    make_undo,
    parse_change,
    render_change,
)
from tests.catalogues import make_record

ONE = make_record("Toy/1.0", aliases=("stable",))
TWO = make_record("Toy/2.0")
KEY, OTHER = ("Toy", "1.0"), ("Toy", "2.0")


def change(old: Records, new: Records, number: int = 1, undoes: int = 0) -> Change:
    return Change(number, "2026-11-21T00:00:00Z", "ada@login1", "verb", "why\n'", make_edits(old, new), undoes)


MOVED: Records = {KEY: replace(ONE, aliases=()), OTHER: replace(TWO, aliases=("stable",))}

PAIRS: dict[str, tuple[Records, Records]] = {
    "a new record": ({KEY: None}, {KEY: ONE}),
    "a record that goes": ({KEY: ONE}, {KEY: None}),
    "an alias that moves": ({KEY: ONE, OTHER: TWO}, MOVED),
    "a new state": ({KEY: ONE}, {KEY: replace(ONE, state="retired", until="2027-01-01")}),
}


@pytest.mark.parametrize(("old", "new"), PAIRS.values(), ids=PAIRS)
def test_a_change_is_written_read_and_undone(old: Records, new: Records) -> None:
    made = change(old, new)
    read = parse_change(render_change(made).encode(), "journal")
    assert read == made
    assert make_undo(read, new) == old


@pytest.mark.parametrize(("old", "new"), PAIRS.values(), ids=PAIRS)
def test_what_was_changed_again_is_not_undone(old: Records, new: Records) -> None:
    later = {key: replace(one, aliases=("other",), state="deprecated") if one else TWO for key, one in new.items()}
    with pytest.raises(BadInputError, match="was changed again since"):
        make_undo(change(old, new), later)


def test_what_stays_as_it_is_makes_no_edit() -> None:
    assert make_edits({KEY: ONE}, {KEY: ONE}) == ()


def test_the_line_of_a_change_holds_only_what_changed() -> None:
    (edit,) = make_edits({KEY: ONE}, {KEY: replace(ONE, state="deprecated")})
    assert (edit.before, edit.after) == ({"state": "published"}, {"state": "deprecated"})


def test_the_last_change_that_still_counts_is_undone() -> None:
    old, new = PAIRS["a new record"]
    first, second = change(old, new, 1), change(old, new, 2)
    taken_back = change(new, old, 3, undoes=2)
    note = Change(4, "", "", "gc", "", ())
    assert find_undoable([first, second]).id == 2
    assert find_undoable([first, second, taken_back, note]).id == 1
    assert find_undoable([first, second, taken_back, change(old, new, 5, undoes=3)]).id == 2
    with pytest.raises(BadInputError, match="nothing to undo"):
        find_undoable([first, change(new, old, 5, undoes=1)])
