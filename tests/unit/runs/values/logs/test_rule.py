"""A single rule of the log reader: the values that it extracts from a line."""

from __future__ import annotations

import pytest

from hpcmod.runs.values.logs.rule import PROBLEM, Rule, name_network


def test_reads_facts_lists_and_counts() -> None:
    rule = Rule(
        "x", "L", "Using", r"Using (?P<first>\w+)", (("first", "the {first}"),), (("all", r"\w+"),), (("n", "a"),)
    )
    assert rule.match("Using abba") == [("first", "the abba"), ("all", "Using"), ("all", "abba"), ("n", "2")]
    assert rule.match("using abba") is None
    assert rule.match("Using ?") is None


def test_a_problem_adds_its_name() -> None:
    assert Rule("broken", "L", "", "x", kind=PROBLEM).match("x") == [("problem", "broken")]


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("AWS Libfabric", "OFI"),
        ("OFI", "OFI"),
        ("IBext_v8", "IB"),
        ("IB", "IB"),
        ("Socket", "Socket"),
        ("FastSocket", "FastSocket"),
    ],
)
def test_names_networks(printed: str, name: str) -> None:
    assert name_network(printed) == name
