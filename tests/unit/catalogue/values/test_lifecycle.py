from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hpcmod.catalogue.values import lifecycle as rules
from hpcmod.catalogue.values.journal import Records
from hpcmod.catalogue.values.record import CatalogueRecord, StateNotice
from hpcmod.core.errors import BadInputError
from tests.catalogues import change_record, make_record

ONE = make_record("Toy/1.0", aliases=("stable",))
TWO = make_record("Toy/2.0", aliases=("latest",))
OLD = make_record("Toy/0.9", state="retired")
ALL = (ONE, TWO, OLD)
KEYS = {record.version: (record.name, record.version) for record in ALL}


def changed(records: Records) -> dict[str, str]:
    """Return state and aliases by version, as `state alias alias`."""
    return {key[1]: " ".join([one.state, *one.aliases]) for key, one in records.items() if one}


def test_an_alias_points_to_one_version() -> None:
    moved = rules.move_alias(ALL, KEYS["2.0"], "stable")
    assert changed(moved) == {"1.0": "published", "2.0": "published latest stable"}


def test_an_alias_that_leads_there_already_changes_nothing() -> None:
    assert rules.move_alias(ALL, KEYS["1.0"], "stable") == {KEYS["1.0"]: ONE}


def test_retiring_gives_the_aliases_to_the_successor() -> None:
    gone = rules.retire(ALL, KEYS["1.0"], successor="Toy/2.0", reason="old")
    assert changed(gone) == {"1.0": "retired", "2.0": "published latest stable"}


def test_retiring_keeps_the_reason_of_the_deprecation() -> None:
    said = rules.deprecate(ALL, KEYS["1.0"], until="2027-01-01", successor="Toy/2.0", reason="too old")
    gone = rules.retire((*filter(None, said.values()), TWO), KEYS["1.0"])[KEYS["1.0"]]
    assert gone is not None
    assert (gone.notice.successor, gone.notice.reason, gone.notice.until) == ("Toy/2.0", "too old", "")


def test_deprecating_again_changes_only_the_given_options_and_an_empty_text_removes_one() -> None:
    first = rules.deprecate(ALL, KEYS["1.0"], until="2027-01-01", successor="Toy/2.0", reason="too old")
    now = (*filter(None, first.values()), replace(TWO, state="retired"))  # would require a new successor, but not here
    again = rules.deprecate(now, KEYS["1.0"], until="2027-06-01")[KEYS["1.0"]]
    assert again is not None
    assert again.notice == StateNotice("2027-06-01", "Toy/2.0", "too old")
    bare = rules.deprecate((again,), KEYS["1.0"], until="", successor="")[KEYS["1.0"]]
    assert bare is not None
    assert bare.notice == StateNotice(reason="too old")
    gone = rules.retire((change_record(ONE, aliases=(), reason="old"),), KEYS["1.0"], successor="", reason="")
    assert gone == {KEYS["1.0"]: replace(ONE, state="retired", aliases=())}


@pytest.mark.parametrize(
    ("others", "lead"), [((TWO, OLD), "Name a --successor of the same name, or remove"), ((OLD,), "Remove")]
)
def test_without_a_successor_the_cure_removes_each_alias(others: tuple[CatalogueRecord, ...], lead: str) -> None:
    """If there is no other version that loads, nothing else is possible."""
    record = replace(ONE, aliases=("latest", "stable"))
    with pytest.raises(BadInputError) as refused:
        rules.retire((record, *others), KEYS["1.0"])
    promote = "hpcmod catalogue promote Toy/1.0 --alias"
    assert refused.value.cure == f"{lead} them first: {promote} latest --remove && {promote} stable --remove"


def test_restoring_removes_the_notice_for_users() -> None:
    gone = change_record(OLD, until="2027-01-01", successor="Toy/2.0", reason="old")
    assert rules.restore((gone,), KEYS["0.9"]) == {KEYS["0.9"]: replace(OLD, state="published")}


@pytest.mark.parametrize(
    ("decide", "said"),
    [
        pytest.param(lambda: rules.move_alias(ALL, KEYS["0.9"], "stable"), "is retired", id="alias to a retired one"),
        pytest.param(
            lambda: rules.move_alias(ALL, KEYS["1.0"], "2.0"), "is already a version", id="alias that is a version"
        ),
        pytest.param(lambda: rules.move_alias(ALL, KEYS["1.0"], "default"), "cannot be an alias", id="reserved"),
        pytest.param(lambda: rules.move_alias(ALL, KEYS["1.0"], "../x"), "cannot be an alias", id="path"),
        pytest.param(lambda: rules.remove_alias(ALL, KEYS["1.0"], "latest"), "does not point to", id="not its alias"),
        pytest.param(lambda: rules.retire(ALL, KEYS["1.0"]), "could no longer be loaded", id="aliases without an heir"),
        pytest.param(
            lambda: rules.retire(ALL, KEYS["1.0"], successor="Toy/9"), "not another container", id="unknown successor"
        ),
        pytest.param(
            lambda: rules.retire(ALL, KEYS["1.0"], successor="Toy/1.0"), "not another container", id="its own successor"
        ),
        pytest.param(
            lambda: rules.retire(ALL, KEYS["1.0"], successor="Toy/stable"), "not another container", id="its own alias"
        ),
        pytest.param(
            lambda: rules.deprecate(ALL, KEYS["1.0"], successor="Toy/0.9"), "is retired too", id="retired successor"
        ),
        pytest.param(lambda: rules.deprecate(ALL, KEYS["1.0"], until="2027-02-30"), "valid date", id="no such day"),
        pytest.param(lambda: rules.deprecate(ALL, KEYS["0.9"]), "is already retired", id="deprecating a retired one"),
    ],
)
def test_refuses_changes_that_would_leave_users_without_a_module(decide: Callable[[], Records], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        decide()


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        pytest.param((ONE, TWO), "1.0", id="the stable one"),
        pytest.param((replace(ONE, aliases=()), TWO, make_record("Toy/3.0")), "2.0", id="else the latest"),
        pytest.param((make_record("Toy/1.0"), make_record("Toy/3.0")), "3.0", id="else the highest"),
        pytest.param((make_record("Toy/1.0"), replace(TWO, state="deprecated")), "1.0", id="rather none deprecated"),
        pytest.param((replace(TWO, state="deprecated"), OLD), "2.0", id="deprecated where there is no other"),
        pytest.param((OLD,), None, id="never a retired one"),
    ],
)
def test_a_name_alone_means_the_version_that_is_best(records: tuple[CatalogueRecord, ...], wanted: str | None) -> None:
    found = rules.choose_default(records)
    assert (found.version if found else None) == wanted
