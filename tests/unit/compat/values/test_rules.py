"""The page of the rules is generated from the rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.compat.values.rules import RULES
from hpcmod.compat.values.stack import StackFacts
from hpcmod.compat.values.verdict import Case, HostFacts, judge
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Images

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "compat-rules.md"
HEAD = """# Rules about images on machines

These are the rules of `hpcmod compat`, in the order of its findings. To use it, see
[Check whether an image works on this machine](../how-to/compat.md). *Refuse* means that the image will not work, *warn*
that it may be slow or fail. If a rule lacks a fact that cannot be determined, its finding is *unknown*, which does not
change the verdict.

| rule | question | says | source |
|---|---|---|---|
"""


def test_the_page_is_that_of_the_rules(golden: Callable[[Path, str], None]) -> None:
    rows = (f"| `{rule.name}` | {rule.question} | {rule.levels} | {rule.source} |\n" for rule in RULES)
    golden(PAGE, HEAD + "".join(rows))


def test_every_rule_asks_a_question_and_cites_a_source() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.question.endswith("?"), rule.name
        assert len(rule.source.split()) >= 4, rule.name
        assert re.match("fail|warn", rule.levels), rule.name


def test_a_case_without_facts_refuses_nothing() -> None:
    verdict = judge(Case(StackFacts(), HostFacts(), Site("x")), RULES)
    assert verdict.level == OK
    assert {one.level for one in verdict.findings} == {UNKNOWN}


@pytest.mark.parametrize(
    ("image", "runtime", "profile", "levels"),
    [
        ("zstd", "apptainer version 1.3.6", "", [FAIL]),
        ("zstd", "singularity-ce version 4.1.5", "zstd", [FAIL]),
        ("zstd", "", "gzip:9", [WARN]),
        ("zstd", "", "", [UNKNOWN]),
        ("zstd", "apptainer version 1.4.5", "gzip", []),
        ("gzip", "apptainer version 1.3.6", "", []),
        ("xz", "", "gzip", []),
    ],
)
def test_the_runtime_else_the_profile_says_whether_zstd_is_read(
    image: str, runtime: str, profile: str, levels: list[str]
) -> None:
    site = Site("x", images=Images(compression=profile))
    findings = judge(Case(StackFacts(compression=image), HostFacts(runtime=runtime), site), RULES).findings
    assert [finding.level for finding in findings if finding.rule == "compression"] == levels


def test_without_an_architecture_in_the_header_the_libraries_decide() -> None:
    verdict = judge(Case(StackFacts("unknown", machine="arm64", libc="glibc"), HostFacts("amd64"), Site("x")), RULES)
    assert [(one.level, one.found) for one in verdict.findings] == [
        (FAIL, "the image is for arm64, this machine is amd64")
    ]
