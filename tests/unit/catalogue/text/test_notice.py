from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest

from hpcmod.catalogue.text.notice import (
    HEAD,
    LIMIT,
    render_advisory,
    render_advisory_notice,
    render_cure,
    render_notices,
    render_state_notice,
)
from hpcmod.catalogue.values.advisory import Advisory, HostFact
from hpcmod.machine.values.condition import Bound
from tests.catalogues import make_record
from tests.plans import HOSTILE

ADVISORY = Advisory("x", "It hangs", "Two\nlines", "https://example.org/1", "2026-01-01", "2027-02-28")
FULL = replace(
    ADVISORY,
    host=(HostFact("/opt/x/{version}", (Bound("x", ">=", "1.22"), Bound("x", "<", "2"))), HostFact("/opt/a b")),
    environment=(("A", "x*"), ("B", None)),
    unset=("A",),
    set=(("C", "it's"), ("D", "")),
)


def test_a_file_of_notices_can_be_read_by_modules() -> None:
    text = render_notices([render_advisory_notice(FULL)])
    assert re.sub("(?m)^notice [0-9a-f]{12}$", "notice ID", text).splitlines() == [
        HEAD,
        "notice ID",
        "until 1803859200",
        "host >=1.22,<2 /opt/x/{version}",
        "host any /opt/a b",
        "variable A x*",
        "no-variable B",
        "say It hangs",
        "say Two",
        "say lines",
        "say To fix it: unset A; export C='it'\\''s'; export D=''",
        'say To apply all fixes: eval "$(hpcmod catalogue advisory --apply)"',
        "say See https://example.org/1 (until 2027-02-28)",
    ]


def test_an_advisory_without_a_cure_offers_none() -> None:
    assert "--apply" not in render_advisory(ADVISORY)


def test_the_cure_alters_the_environment_of_a_shell() -> None:
    lines = "\n".join(render_cure(FULL))
    shell = f'set -eu; {lines}; printf "%s|" "${{A-none}}" "$C" "$D"'
    done = subprocess.run(["bash", "-c", shell], env={"A": "3", "D": "x"}, capture_output=True, text=True, check=True)
    assert done.stdout == "none|it's||"


def test_a_notice_that_changes_gets_another_name_and_one_that_does_not_keeps_it() -> None:
    one, other = (render_advisory_notice(replace(ADVISORY, text=text)) for text in ("a", "b"))
    names = [re.findall("(?m)^notice (.*)$", render_notices(blocks)) for blocks in ([one, other], [other], [one])]
    assert names == [[*names[2], *names[1]], names[1], names[2]]
    assert names[1] != names[2]


def test_a_repeated_message_is_in_the_file_once() -> None:
    assert render_notices([render_advisory_notice(ADVISORY)] * 3) == render_notices([render_advisory_notice(ADVISORY)])


def test_a_file_is_never_larger_than_what_a_module_reads() -> None:
    many = [render_advisory_notice(replace(ADVISORY, title=str(number), text="\u00e9" * 3000)) for number in range(40)]
    text = render_notices(many)
    assert LIMIT - 7000 < len(text.encode()) <= LIMIT
    assert text.endswith("\n")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_text_in_lines_of_its_own(text: str) -> None:
    record = make_record("A/1", state="deprecated", reason=text, successor=text)
    blocks = [render_advisory_notice(replace(ADVISORY, title=text, text=text)), render_state_notice(record, named=True)]
    lines = render_notices(blocks).split("\n")
    assert {line.partition(" ")[0] for line in lines} <= {HEAD.split()[0], "notice", "until", "module", "say", ""}
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", "".join(lines))


def test_a_retired_container_says_when_why_and_its_replacement() -> None:
    record = make_record("A/1", state="deprecated", until="2027-01-01", successor="A/2", reason="too old")
    assert render_state_notice(record, named=True).splitlines() == [
        "module A/1",
        "say this container is deprecated, and may be retired on or after 2027-01-01.",
        "say Use A/2 instead: module load A/2",
        "say Reason: too old",
    ]
    assert not render_state_notice(record, named=False).startswith("module")
