"""Logs of communication libraries: every excerpt of the corpus, and how lines are counted and kept."""

from __future__ import annotations

import pytest

from hpcmod.runs.values.logs.reading import LONGEST, MOST_KEPT, RULES, Reading, read_line, read_log
from hpcmod.runs.values.logs.rule import FACT, PROBLEM, REASON
from tests.logs import HELD_OUT, Excerpt, excerpts, found

EXCERPTS = excerpts()


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=[excerpt.name for excerpt in EXCERPTS])
@pytest.mark.slow
def test_reads_each_excerpt_as_a_person_does(excerpt: Excerpt) -> None:
    assert found(excerpt.read()) == excerpt.expect


def test_the_corpus_is_large_and_its_held_out_third_is_chosen_by_hash() -> None:
    assert len(EXCERPTS) >= 60
    assert len({excerpt.source for excerpt in EXCERPTS}) >= 25
    assert all(excerpt.is_held_out == (excerpt.file == HELD_OUT) for excerpt in EXCERPTS)
    assert 3 * sum(excerpt.is_held_out for excerpt in EXCERPTS) >= len(EXCERPTS)


def test_every_reason_and_problem_has_a_meaning_a_cure_and_a_source() -> None:
    assert not [rule.name for rule in RULES if rule.kind != FACT and not (rule.meaning and rule.cure and rule.source)]
    assert {rule.kind for rule in RULES} == {FACT, REASON, PROBLEM}


def test_one_name_is_one_meaning_of_one_library() -> None:
    names = [(rule.name, rule.library) for rule in RULES]
    assert len(names) == len(set(names))


def test_counts_lines_of_libraries_and_those_that_no_rule_knows() -> None:
    lines = ["hello", "a:1:1 [0] NCCL INFO Using network IB", "a:1:1 [0] NCCL INFO something new"]
    reading = read_log("\n".join(lines))
    assert (reading.lines, reading.unread, reading.warnings) == (2, 1, 0)
    assert reading.values("network") == ("IB",)


def test_keeps_a_warning_of_all_ranks_once() -> None:
    reading = read_log("\n".join(f"nid{rank}:{rank}:1 [0] src/x.cc:1 NCCL WARN it broke" for rank in range(1000)))
    assert [seen.text for seen in reading.unknown] == ["src/x.cc:1 NCCL WARN it broke"]
    assert reading.warnings == 1000


def test_keeps_a_limited_number_of_warnings() -> None:
    assert len(read_log("\n".join(f"NCCL WARN {number}" for number in range(1000))).unknown) == MOST_KEPT


def test_reads_the_beginning_of_a_line_without_an_end() -> None:
    reading = read_log("x" * LONGEST + " NCCL INFO Using network IB")
    assert reading.lines == 0


def test_adds_to_an_earlier_reading_and_puts_the_most_frequent_first() -> None:
    reading = Reading()
    for network in ("Socket", "IB", "IB"):
        read_line(reading, f"NCCL INFO Using network {network}")
    assert reading.values("network") == ("IB", "Socket")
    assert read_log("NCCL version 2.20.5", into=reading).values("version") == ("NCCL 2.20.5",)


def test_names_file_and_line_of_a_problem() -> None:
    text = "\nNCCL WARN Bootstrap : no socket interface found"
    seen = read_log(text, file="a.log").noted["no-socket-interface"]
    assert (seen.file, seen.line, seen.text) == ("a.log", 2, "NCCL WARN Bootstrap : no socket interface found")
