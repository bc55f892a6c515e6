"""Parsing lists of collectives and of node counts."""

from __future__ import annotations

import pytest

from hpcmod.cli.runs.bench_options import USUAL, parse_collectives, parse_counts
from hpcmod.errors import BadInputError


def test_collectives_are_those_named_once_each_or_the_usual() -> None:
    assert parse_collectives("broadcast, all_reduce,broadcast", "") == ("broadcast", "all_reduce")
    assert parse_collectives("", "torch") == USUAL


@pytest.mark.parametrize(("text", "library"), [("allreduce", ""), ("sendrecv", "torch")])
def test_what_cannot_be_measured_is_refused(text: str, library: str) -> None:
    with pytest.raises(BadInputError, match="--ops"):
        parse_collectives(text, library)


def test_node_counts_keep_their_order() -> None:
    assert parse_counts("4,1, 2,4") == (4, 1, 2) and parse_counts("") == ()


@pytest.mark.parametrize("text", ["0", "-1", "x", "1,,2", "1-4", "1234567"])
def test_other_counts_are_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="-N"):
        parse_counts(text)
