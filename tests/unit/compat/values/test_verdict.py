from __future__ import annotations

from hpcmod.compat.values.elf import ElfFile
from hpcmod.compat.values.loader import Closure, Library
from hpcmod.compat.values.stack import StackFacts
from hpcmod.compat.values.verdict import Case, CompatRule, HostFacts, Unmet, Verdict, find_unmet, judge
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN, Finding
from hpcmod.machine.values.site import Site

MADE = Case(StackFacts(), HostFacts(), Site("x"))


def library(name: str, *needs: tuple[str, str], defines: tuple[str, ...] = (), soname: str = "") -> Library:
    elf = ElfFile("amd64", 64, soname or name, versions_needed=needs, versions_defined=defines)
    return Library(name, f"/l/{name}", f"/l/{name}", elf)


def unmet(*libraries: Library) -> tuple[Unmet, ...]:
    return find_unmet(Closure(libraries, ()))


def test_a_version_that_the_library_does_not_define_is_unmet() -> None:
    user, fabric = library("u", ("f", "F_1"), ("f", "F_2")), library("f", defines=("F_1",))
    assert unmet(user, fabric) == (Unmet("F_2", "/l/f", "/l/u"),)


def test_a_library_without_versions_matches_any_and_a_missing_one_is_left_to_other_rules() -> None:
    assert unmet(library("u", ("f", "F_1")), library("f")) == ()
    assert unmet(library("u", ("gone", "F_1"))) == ()


def test_a_library_is_known_by_the_name_it_was_asked_for_and_by_its_own() -> None:
    assert unmet(library("u", ("own", "F_1")), library("asked", defines=("F_2",), soname="own"))
    assert unmet(library("u", ("asked", "F_1")), library("asked", defines=("F_2",), soname="own"))


def test_a_verdict_is_as_bad_as_its_worst_finding() -> None:
    def verdict(*levels: str) -> Verdict:
        return Verdict(tuple(Finding(level, "x", "y") for level in levels))

    assert verdict().level == OK
    assert verdict(OK, UNKNOWN).level == OK
    assert verdict(OK, WARN, UNKNOWN).level == WARN
    assert verdict(WARN, FAIL, OK).level == FAIL
    assert [one.level for one in verdict(WARN, FAIL, WARN).at(WARN)] == [WARN, WARN]


def test_rules_are_asked_in_their_order() -> None:
    rules = [CompatRule(name, "?", WARN, "s", lambda case, name=name: iter([Finding(WARN, name, "")])) for name in "ba"]  # type: ignore[misc]
    assert [one.rule for one in judge(MADE, rules).findings] == ["b", "a"]
