from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.catalogue.values.journal import (
    Change,
    Records,
    find_undoable,
    make_edits,
    make_undo,
    parse_change,
    render_change,
)
from hpcmod.core.errors import BadInputError
from tests.catalogues import change_record, make_record

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
    "a new state": ({KEY: ONE}, {KEY: change_record(ONE, state="retired", until="2027-01-01")}),
}


@pytest.mark.parametrize(("old", "new"), PAIRS.values(), ids=PAIRS)
def test_a_change_is_written_read_and_undone(old: Records, new: Records) -> None:
    made = change(old, new)
    read = parse_change(render_change(made).encode(), "journal")
    assert read == made
    assert make_undo(read, new, [made]) == old


@pytest.mark.parametrize(("old", "new"), PAIRS.values(), ids=PAIRS)
def test_does_not_undo_a_value_that_changed_again(old: Records, new: Records) -> None:
    later = {key: replace(one, aliases=("other",), state="deprecated") if one else TWO for key, one in new.items()}
    with pytest.raises(BadInputError, match="was changed again since"):
        make_undo(change(old, new), later, [change(old, new)])


def test_unchanged_values_make_no_edit() -> None:
    assert make_edits({KEY: ONE}, {KEY: ONE}) == ()


def test_the_line_of_a_change_holds_only_what_changed() -> None:
    (edit,) = make_edits({KEY: ONE}, {KEY: replace(ONE, state="deprecated")})
    assert (edit.before, edit.after) == ({"state": "published"}, {"state": "deprecated"})


def test_the_last_change_that_still_counts_is_undone() -> None:
    old, new = PAIRS["a new record"]
    first, second = change(old, new, 1), change(old, new, 2)
    taken_back = change(new, old, 3, undoes=2)
    assert find_undoable([first, second]).id == 2
    assert find_undoable([first, second, taken_back]).id == 1
    assert find_undoable([first, second, taken_back, change(old, new, 5, undoes=3)]).id == 2
    with pytest.raises(BadInputError, match="nothing to undo"):
        find_undoable([first, change(new, old, 5, undoes=1)])


@pytest.mark.parametrize(
    ("verb", "cure"), [("gc", "hpcmod publish REFERENCE"), ("advisory refresh", "hpcmod catalogue advisory refresh")]
)
def test_an_older_change_than_the_last_is_undone_only_by_its_number(verb: str, cure: str) -> None:
    old, new = PAIRS["a new record"]
    changes = [change(old, new, 1), change(old, new, 2), change(new, old, 3, undoes=2), Change(4, "", "", verb, "", ())]
    with pytest.raises(BadInputError, match=rf"^the last change, 4 \({verb}\), cannot be undone: it ") as refused:
        find_undoable(changes)
    assert refused.value.cure.endswith(f"{cure}. To undo verb Toy/1.0: hpcmod catalogue undo 1")
    with pytest.raises(BadInputError) as refused:
        find_undoable(changes, lambda change: change.id != 1)
    assert refused.value.cure.endswith(cure)
    with pytest.raises(BadInputError, match=r"^change 4 .* cannot be undone: it ") as named:
        make_undo(changes[3], {}, changes)
    assert named.value.cure.endswith(cure)


def journal(*steps: tuple[Records, int]) -> list[Change]:
    """Return changes that set these records one after the other; each may undo an earlier change."""
    now: Records = {KEY: None, OTHER: None}
    changes = []
    for number, (new, undoes) in enumerate(steps, 1):
        changes.append(change({key: now[key] for key in new}, new, number, undoes))
        now = {**now, **new}
    return changes


def test_an_undo_is_refused_for_a_container_published_again_since() -> None:
    changes = journal(({KEY: ONE}, 0), ({KEY: None}, 1), ({KEY: ONE}, 0))
    with pytest.raises(BadInputError, match=r"change 1 .* is already undone, by change 2"):
        make_undo(changes[0], {KEY: ONE}, changes)
    assert make_undo(changes[2], {KEY: ONE}, changes) == {KEY: None}


def test_an_undo_is_refused_although_a_later_change_made_the_values_equal_again() -> None:
    plain = replace(ONE, aliases=())
    changes = journal(({KEY: plain}, 0), ({KEY: ONE}, 0), ({KEY: plain}, 0), ({KEY: ONE}, 0))
    with pytest.raises(BadInputError, match="changed again since, by change 3"):
        make_undo(changes[1], {KEY: ONE}, changes)


def test_a_later_change_that_is_undone_is_not_in_the_way() -> None:
    plain = replace(ONE, aliases=())
    changes = journal(({KEY: plain}, 0), ({KEY: ONE}, 0), ({KEY: plain}, 2))
    assert make_undo(changes[0], {KEY: plain}, changes) == {KEY: None}
    again = [*changes, change({KEY: plain}, {KEY: ONE}, 4, undoes=3)]
    assert make_undo(again[1], {KEY: ONE}, again) == {KEY: plain}
    with pytest.raises(BadInputError, match="changed again since, by change 2"):
        make_undo(again[0], {KEY: ONE}, again)


def test_another_field_of_the_record_does_not_matter() -> None:
    tested = change_record(ONE, homepage="https://example.org")
    changes = journal(({KEY: ONE}, 0), ({KEY: tested}, 0))
    assert make_undo(changes[0], {KEY: tested}, changes) == {KEY: None}
