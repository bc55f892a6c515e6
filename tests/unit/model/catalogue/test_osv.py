from __future__ import annotations

import json
from typing import Any

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.catalogue.advisory_schema import parse_advisory
from hpcmod.model.catalogue.osv import name_of_entry, render_entry
from hpcmod.model.images.facts import Package

ENTRY: dict[str, Any] = {
    "id": "TEST-2027-1",
    "summary": 'A "bad" load\nof files',
    "details": "Loading runs code.\x1b[31m",
    "published": "2027-01-20T10:00:00Z",
    "references": [{"type": "WEB", "url": "http://x"}, {"type": "ADVISORY", "url": "https://example.org/1"}],
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "torch"},
            "ranges": [
                {"type": "GIT", "events": [{"introduced": "0"}, {"fixed": "abc"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.13.1"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "2.0.0"}, {"last_affected": "2.5.1"}]},
            ],
        },
        {"package": {"ecosystem": "PyPI", "name": "old"}, "versions": ["0.1", "0.2"]},
        {"package": {"ecosystem": "Debian:12", "name": "zlib"}, "versions": ["1.2"]},
    ],
}


def render(**changed: Any) -> str:
    return render_entry(json.dumps({**ENTRY, **changed}).encode(), "entry", until="2028-01-01")


def test_an_entry_becomes_an_advisory_on_the_versions_it_names() -> None:
    made = parse_advisory(render(), "entry", "TEST-2027-1")
    assert made.title == 'TEST-2027-1: A "bad" load of files'
    assert (made.source, made.issued, made.expires) == ("https://example.org/1", "2027-01-20", "2028-01-01")
    assert "\x1b" not in made.text
    for package, concerned in [
        (Package("torch", "1.12"), True),
        (Package("torch", "1.13.1"), False),
        (Package("torch", "2.5.1+cpu"), True),
        (Package("torch", "2.6"), False),
        (Package("old", "0.2"), True),
        (Package("zlib", "1.2"), False),
    ]:
        assert made.concerns("Toy/1.0", "", [package]) is concerned, package


def test_a_range_without_an_end_has_none() -> None:
    affected = {
        "package": {"ecosystem": "PyPI", "name": "a"},
        "ranges": [{"type": "SEMVER", "events": [{"introduced": "3"}]}],
    }
    assert 'packages = ["a>=3"]' in render(affected=[affected])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"affected": []}, "lists no version of a Python package"),
        ({"withdrawn": "2027-02-01T00:00:00Z"}, "was withdrawn"),
        ({"id": "../x"}, "not an OSV entry"),
        ({"affected": 7}, "affected: expected a list"),
    ],
)
def test_refuses_unusable_osv_entries(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        render(**changed)
    assert name_of_entry(json.dumps(ENTRY).encode(), "entry") == "TEST-2027-1"
