from __future__ import annotations

from pathlib import Path

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.runs.known_endings import read_known_endings
from tests.unit.runs.values.endings.test_ending import TEXT


def test_a_catalogue_adds_endings_and_replaces_ours(tmp_path: Path) -> None:
    place = tmp_path / "advisories" / "endings"
    place.mkdir(parents=True)
    (place / "site.toml").write_text(TEXT + TEXT.replace("our-licence-server", "quota"))
    (place / "wrong.toml").write_text("[x]\nkind = 1\n")
    (place / ".site.toml.swp.toml").write_text("rubbish")
    found, faults = read_known_endings([Catalogue(tmp_path)])
    by_name = {one.name: one for one in found}
    assert by_name["our-licence-server"].cure == by_name["quota"].cure == "Wait."
    assert len(faults) == 1 and "wrong.toml" in faults[0] and "kind: must be one of" in faults[0]


def test_without_a_catalogue_there_are_ours() -> None:
    found, faults = read_known_endings([])
    assert len(found) > 50 and faults == []
