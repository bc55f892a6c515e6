from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.catalogue.text.published import render_modulerc, render_published, retirement
from hpcmod.core.resources import module_templates
from tests.catalogues import change_record, make_record

TEXT = {"Lua": 'setenv("A", "1")\n', "Tcl": "#%Module\nsetenv A 1\n"}
HOSTILE = 'a"; os.execute("touch /tmp/x") --]] [exec touch x] $HOME {\n\x1b[2J'

PUBLISHED = make_record("Toy/1.0")
RETIRED = change_record(PUBLISHED, state="retired", successor="Toy/2.0", reason=HOSTILE)


def rendered(syntax: str, **values: str) -> str:
    record = change_record(RETIRED if "until" in values else PUBLISHED, until=values.get("until", ""))
    usage = values.get("usage", "")
    return render_published(TEXT[syntax], syntax, module_templates(), record=record, usage=usage, image="/i.sif")


@pytest.mark.parametrize("syntax", TEXT)
def test_a_published_module_is_what_eb_wrote(syntax: str) -> None:
    assert rendered(syntax) == TEXT[syntax]


@pytest.mark.parametrize("syntax", TEXT)
def test_all_of_the_module_stays_below_its_end_so_that_it_can_be_unloaded(syntax: str) -> None:
    text = rendered(syntax, until="")
    assert text.endswith(TEXT[syntax].partition("\n")[2] or TEXT[syntax])
    assert text.startswith("#%Module\n" if syntax == "Tcl" else "--")


def test_notices_contain_no_control_characters() -> None:
    assert "\x1b" not in retirement(RETIRED)
    assert retirement(RETIRED).endswith("Use Toy/2.0 instead:\n  module load Toy/2.0")
    assert "hpcmod ls Toy" in retirement(change_record(RETIRED, successor=""))


@pytest.mark.parametrize("syntax", TEXT)
def test_only_a_grace_period_asks_for_the_day(syntax: str) -> None:
    assert "2027-01-01" in rendered(syntax, until="2027-01-01")
    assert "os.date" not in rendered(syntax, until="")
    assert "clock" not in rendered(syntax, until="")


def test_aliases_lead_and_the_retired_are_hidden() -> None:
    records = [PUBLISHED, replace(make_record("Toy/2.0"), aliases=("latest", "stable")), make_record("Toy/3.0")]
    records.append(make_record("Toy/0.9", state="retired"))
    assert render_modulerc(records, "Lua", module_templates(), default=records[2]).splitlines()[1:] == [
        'module_version("Toy/2.0", "latest", "stable")',
        'module_version("Toy/3.0", "default")',
        'hide_version("Toy/0.9")',
    ]
    tcl = render_modulerc(records, "Tcl", module_templates(), default=records[1])
    assert tcl.startswith("#%Module\n")
    assert 'module-version "Toy/2.0" "latest" "stable" "default"\n' in tcl
    assert 'module-hide "Toy/0.9"' in tcl
