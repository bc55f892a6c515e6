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
    endings, faults = read_known_endings([Catalogue(tmp_path)])
    cures = {ending.name: ending.cure for ending in endings}
    assert cures["our-licence-server"] == cures["quota"] == "Wait."
    assert len(faults) == 1 and "wrong.toml" in faults[0] and "kind: must be one of" in faults[0]


def test_without_a_catalogue_there_are_ours_for_the_container() -> None:
    endings, faults = read_known_endings([], module="PyTorch/2.7.1")
    assert len(endings) > 50 and faults == []
    cures = {ending.name: ending.cure for ending in endings}
    assert "hpcmod compat PyTorch/2.7.1" in cures["mpich-endpoint"]
    assert "GLOO_SOCKET_IFNAME" in cures["gloo-loopback"]
