"""The machine that an installation was made for decides, whatever the shell says; --site changes it by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.machine.machine import find_machine
from hpcmod.modules.own_site import site_of
from hpcmod.modules.values.install_record import NO_RECORD, InstallRecord

LUMI = InstallRecord(module="Tiny/1", site="lumi", profile="lumi")


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "ours.toml"
    path.write_text('name = "lumi"\nextends = "generic"\n[network]\ninterfaces = ["eth7"]\n')
    return path


@pytest.mark.parametrize(
    ("record", "shell", "asked", "site", "told"),
    [
        pytest.param(LUMI, "frontier", None, "lumi", "Tiny/1 was installed; for frontier: --site frontier", id="other"),
        pytest.param(LUMI, "frontier", "frontier", "frontier", "", id="asked for by name"),
        pytest.param(LUMI, "lumi", None, "lumi", "", id="the same"),
        pytest.param(LUMI, "", None, "lumi", "", id="a shell that says nothing"),
        pytest.param(LUMI, "generic", None, "lumi", "for generic: --site generic", id="a shell that says generic"),
        pytest.param(NO_RECORD, "lumi", None, "lumi", "", id="no record"),
    ],
)  # fmt: skip
def test_the_record_decides(record: InstallRecord, shell: str, asked: str | None, site: str, told: str) -> None:
    environ = {"HPCMOD_SITE": shell} if shell else {}
    here = find_machine(None, environ, flag=asked or shell or "generic").site
    lines: list[str] = []
    assert site_of(record, here, environ, asked=asked, tell=lines.append).name == site
    assert told in "\n".join(lines) and len(lines) == bool(told)


def test_a_profile_is_found_again_by_its_path_and_not_by_its_name(ours: Path) -> None:
    record = InstallRecord(module="Tiny/1", site="lumi", profile=find_machine(None, {}, flag=str(ours)).site.profile)
    here = find_machine(None, {}, flag="frontier").site
    assert site_of(record, here, {}, asked=None, tell=lambda _: None).network.interfaces == ("eth7",)
    ours.unlink()
    with pytest.raises(BadInputError, match=r"Tiny/1 was installed for lumi, whose profile cannot be read") as caught:
        site_of(record, here, {}, asked=None, tell=lambda _: None)
    assert caught.value.cure == "Choose a profile by name: --site frontier"


def test_a_file_that_only_renames_a_profile_is_not_needed_later(ours: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "temporary.toml"
    for extends, expected in (("polaris", "polaris"), (str(ours), str(ours)), ("ours.toml", str(ours))):
        renamed.write_text(f'name = "lumi"\nextends = "{extends}"\n')
        assert find_machine(None, {}, flag=str(renamed)).site.profile == expected
