from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.runs.known_endings import shipped_endings
from hpcmod.runs.values.endings.ending import (
    CAUSE,
    KINDS,
    line_has,
    match_length,
    parse_endings,
)

AUTHORITIES = {
    *("slurm.schedmd.com", "apptainer.org", "rocm.docs.amd.com", "lmod.readthedocs.io", "huggingface.co"),
    *("lightning.ai", "www.deepspeed.ai", "cpe.ext.hpe.com"),
}
"""Those who document what they make, beside hosts that begin with `docs.`: no threads of other projects."""

TEXT = """
[our-licence-server]
kind = "cause"
title = "the licence server is down"
text = "It restarts at 6."
source = "https://example.org/licences"
match.lines = ["licence * refused", "no licence left"]
match.without = ["retrying"]
match.states = ["LICENSES"]
cure.text = "Wait."
cure.set = { LICENCE = "a b" }
cure.unset = ["OLD"]
"""


def test_a_file_of_endings_is_read() -> None:
    (found,) = parse_endings(TEXT, "ours.toml")
    assert (found.name, found.kind, found.states) == ("our-licence-server", CAUSE, ("LICENSES",))
    assert found.help == "Wait. (unset OLD; export LICENCE=a b)"
    assert match_length("a licence was refused", found) and not match_length("licence refused, retrying", found)
    assert not match_length("refused licence", found)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("cause", "reason"), "kind: must be one of cause"),
        (('text = "It restarts at 6."\n', ""), "text: missing"),
        (("https:", "http:"), "source: must be a URL"),
        (("licence * refused", "a * b"), "no part of 6 characters"),
        (("licence * refused", "licence * a * b * c * refused"), "more than 3 asterisks"),
        (('["licence * refused", "no licence left"]', "[]"), "match.lines: must not be empty"),
        (("match.without", "match.not"), "match.not: unknown key"),
        (("LICENCE =", '"9A" ='), "must be a valid variable name"),
        (("[our-licence-server]", "[Our]"), "a name has lower-case letters"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(change: tuple[str, str], fault: str) -> None:
    with pytest.raises(BadInputError, match=r"known endings x\.toml") as raised:
        parse_endings(TEXT.replace(*change), "x.toml")
    assert fault in raised.value.message


def test_a_value_where_a_table_must_be_is_refused() -> None:
    with pytest.raises(BadInputError, match="must be a table"):
        parse_endings("a = 1", "x.toml")


def test_parts_of_a_pattern_must_be_in_order() -> None:
    assert line_has("abc def", "abc*def") and not line_has("def abc", "abc*def")


def test_our_own_endings_are_complete() -> None:
    found = [one for name, text in shipped_endings().items() for one in parse_endings(text, name)]
    assert len(found) >= 50 and {one.kind for one in found} == set(KINDS)
    assert len({one.name for one in found}) == len(found)
    assert [one.name for one in found if one.kind == CAUSE and not one.cure] == []
    hosts = {one.source.split("/")[2] for one in found if one.source}
    assert {host for host in hosts if not host.startswith("docs.")} <= AUTHORITIES
