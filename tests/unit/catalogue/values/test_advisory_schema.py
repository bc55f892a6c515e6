from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.values.advisory_schema import parse_advisory
from hpcmod.core.errors import BadInputError
from tests.json_schemas import fits_schema
from tests.unit.catalogue.values.test_advisory import ABOUT, DIGEST

TEXT = f"""
title = "RCCL hangs"
text = '''
On two nodes and more.
Since January.
'''
source = "https://example.org/28"
issued = 2026-09-01
expires = 2027-02-28

[match]
digests = ["sha256:{DIGEST}"]
modules = ["PyTorch/2.7*"]

[match.host]
libfabric = {{ path = "/opt/cray/libfabric/{{version}}/lib64", version = ">=1.22, <2" }}
plugin = "/opt/plugin"

[match.environment]
NCCL_NET_GDR_LEVEL = "*"
NCCL_NET = false

[cure]
unset = ["NCCL_NET_GDR_LEVEL"]
set = {{ FI_MR_CACHE_MONITOR = "kdreg2", EMPTY = "" }}
"""
NEEDED = 'title = "t"\ntext = "x"\nsource = "https://example.org"\nissued = 2026-01-01\nexpires = 2027-01-01\n'


UNKNOWN_TO_EDITORS = (
    *("more than 3 asterisks", "once if a version", r"cure\.set: A is also listed under unset"),
    *("must be a date", "before the issue date, 2026-01-01"),
)
"""Faults of values that have the right form."""


def parse(text: str) -> Advisory:
    return parse_advisory(text, "gdr.toml", "gdr")


def test_reads_all_that_an_advisory_can_say() -> None:
    text = "On two nodes and more.\nSince January."
    cure = {"unset": ("NCCL_NET_GDR_LEVEL",), "set": (("FI_MR_CACHE_MONITOR", "kdreg2"), ("EMPTY", ""))}
    assert fits_schema("advisory", TEXT)
    assert parse(TEXT) == replace(ABOUT, text=text, **cure)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        pytest.param(
            "[match]\ndigest = []", r"match\.digest: unknown key, did you mean match\.digests\?", id="unknown key"
        ),
        pytest.param("[match]\ndigests = ['sha256:ab']", "64 hexadecimal digits", id="half a digest"),
        pytest.param("[match]\nmodules = 'PyTorch'", "list of strings", id="no list"),
        pytest.param("[match]\nmodules = []", "must not be empty", id="about every image by mistake"),
        pytest.param("[match]\ndigests = []", "must not be empty", id="the same of digests"),
        pytest.param("[match]\nmodules = ['*a*b*c*']", "more than 3 asterisks", id="a name that takes its time"),
        pytest.param("match = 'PyTorch'", r"match: must be a single table: \[match\]", id="no table"),
        pytest.param("[[match]]\nmodules = ['x']", r"match: must be a single table", id="two tables"),
        pytest.param("[match]\ntext = 'x'", r"match\.text: unknown key; text must stand above \[match\]", id="too low"),
        pytest.param("[mtach]\nmodules = ['x']", "mtach: unknown key, did you mean match?", id="unknown table"),
        pytest.param("[match.host]\nx = 'opt'", "absolute path", id="a relative path"),
        pytest.param("[match.host]\nx = {path = '/o/{version}', version = '1.22'}", ">=1.22", id="no operator"),
        pytest.param("[match.host]\nx = {path = '/opt/x', version = '>=1'}", "once if a version", id="no place for it"),
        pytest.param("[match.host]\nx = '/opt/{version}'", "once if a version", id="a place for nothing"),
        pytest.param("[match.host]\nx = '/*/*/*/*'", "more than 3 asterisks", id="a search of the whole disk"),
        pytest.param("[match.host]\nx = {version = '>=1'}", "x: must be a path", id="no path"),
        pytest.param("[match.host]\nx = {path = '/opt/x', verison = '>=1'}", "verison", id="unknown key of a host"),
        pytest.param("[match.environment]\n'A B' = '*'", "name of an environment variable", id="no name"),
        pytest.param("[match.environment]\nA = true", r"match\.environment: A: must be a non-empty", id="no text"),
        pytest.param("[match.environment]\nA = '*a*b*c*'", "more than 3 asterisks", id="a pattern that takes its time"),
        pytest.param("[cure]\nunset = ['A;B']", "name of an environment variable", id="a command"),
        pytest.param('[cure.set]\nA = "a\\nb"', "control character", id="two lines"),
        pytest.param(
            "[cure]\nunset = ['A', 'B']\nset = {A = '1'}", r"cure\.set: A is also listed under unset", id="both at once"
        ),
        pytest.param("[cure]\nrun = 'x'", r"cure\.run: unknown key", id="unknown cure"),
        pytest.param("[match", "not valid TOML", id="no TOML"),
    ],
)
def test_refuses_invalid_values_and_reports_them(more: str, fault: str) -> None:
    with pytest.raises(BadInputError, match=fault):
        parse(NEEDED + more)
    assert fault in UNKNOWN_TO_EDITORS or not fits_schema("advisory", NEEDED + more)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param("expires = 2027-02-30", "TOML", id="no such day"),
        pytest.param("expires = '2027-02-30'", "must be a date", id="no such day, as a text"),
        pytest.param("expires = 'soon'", "must be a date", id="no day"),
        pytest.param("expires = 2025-12-31", "before the issue date, 2026-01-01", id="over before it began"),
        pytest.param("issued = 2026-01-01T10:00:00", "must be a date", id="an hour"),
        pytest.param("issued = 20260101", "must be a date", id="a number"),
        pytest.param("source = 'javascript:alert(1)'", "https://", id="no address"),
        pytest.param("source = 'https://a b'", "https://", id="a blank in an address"),
        pytest.param("title = ''", "non-empty", id="no title"),
        pytest.param(f"text = '{'x' * 5000}'", "4000", id="too long"),
    ],
)
def test_refuses_a_wrong_value_of_a_key_that_must_be_there(line: str, fault: str) -> None:
    key = line.partition(" ")[0]
    text = "".join(f"{one}\n" for one in NEEDED.splitlines() if not one.startswith(key)) + line
    with pytest.raises(BadInputError, match=fault):
        parse(text)
    assert fault in UNKNOWN_TO_EDITORS or not fits_schema("advisory", text)


def test_tells_all_faults_together() -> None:
    with pytest.raises(BadInputError) as caught:
        parse("titel = 'x'\n[cure]\nunset = 'A'\n")
    for part in ("titel: unknown key, did you mean title?", "cure.unset:", "expires: missing", "source: missing"):
        assert part in caught.value.message
