from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.session import check_advisories, find_loaded
from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.visible.advisories import matching_advisories, read_advisories
from hpcmod.catalogue.visible.notices import describe_reach, look_for_notices, write_notices
from hpcmod.core.errors import BadInputError
from tests.catalogues import make_catalogue, make_record, put
from tests.plans import make_example

NEW = make_record("PyTorch/2.7")
OLD = make_record("PyTorch/2.6", state="deprecated", until="2027-01-01", successor="PyTorch/2.7")
ADVISORY = """
title = "It hangs"
text = "on two nodes"
source = "https://example.org/1"
issued = 2026-01-01
expires = 2099-01-01
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return make_catalogue(tmp_path / "catalogue", NEW, OLD)


def advise(catalogue: Catalogue, more: str = "", *, name: str = "hangs", text: str = ADVISORY) -> Path:
    catalogue.advisories.mkdir(exist_ok=True)
    path = catalogue.advisories / f"{name}.toml"
    path.write_text(text + more, encoding="utf-8")
    return path


def notices(catalogue: Catalogue) -> dict[str, str]:
    """Write the notices and return their texts by file name."""
    write_notices(catalogue, tell=print)
    if not catalogue.notices.exists():
        return {}
    files = {path.name: path.read_text(encoding="utf-8") for path in catalogue.notices.iterdir()}
    return {
        name: " ".join(line[4:] for line in text.splitlines() if line.startswith("say")) for name, text in files.items()
    }


def test_only_deprecated_or_retired_containers_have_a_notice(catalogue: Catalogue) -> None:
    put(catalogue, make_record("PyTorch/2.5", state="retired"))
    said = notices(catalogue)
    assert set(said) == {OLD.sha256, make_record("PyTorch/2.5").sha256}
    assert "Use PyTorch/2.7 instead" in said[OLD.sha256]


def test_notices_that_do_not_fit_into_a_file_are_reported(
    catalogue: Catalogue, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(20):
        advise(catalogue, name=f"long-{number}", text=ADVISORY.replace("on two nodes", f"{number:04} " * 790))
    notices(catalogue)
    assert "of 20 notices of all, as they are longer than 64 KiB" in capsys.readouterr().out


def test_a_notice_is_removed_when_the_container_is_restored(catalogue: Catalogue) -> None:
    notices(catalogue)
    put(catalogue, replace(OLD, state="published"))
    assert write_notices(catalogue, tell=print) == (OLD.sha256,)
    assert notices(catalogue) == {}


def test_files_that_are_right_already_are_left_unchanged(catalogue: Catalogue) -> None:
    assert write_notices(catalogue, tell=print) == (OLD.sha256,)
    before = (catalogue.notices / OLD.sha256).stat()
    assert write_notices(catalogue, tell=print) == ()
    assert (catalogue.notices / OLD.sha256).stat().st_ino == before.st_ino


def test_files_that_are_not_ours_stay(catalogue: Catalogue) -> None:
    catalogue.notices.mkdir()
    (catalogue.notices / "README").touch()
    write_notices(catalogue, tell=print)
    assert (catalogue.notices / "README").exists()


def test_everybody_who_may_read_the_catalogue_may_read_its_notices(catalogue: Catalogue) -> None:
    catalogue.directory.chmod(0o755)
    before = os.umask(0o027)
    try:
        write_notices(catalogue, tell=print)
    finally:
        os.umask(before)
    assert (catalogue.notices / OLD.sha256).stat().st_mode & 0o777 == 0o644


def test_reports_only_the_requested_one_of_two_containers_with_one_image(catalogue: Catalogue) -> None:
    put(catalogue, replace(make_record("Torch/2.6"), sha256=OLD.sha256))
    write_notices(catalogue, tell=print)
    assert f"module {OLD.module}\n" in (catalogue.notices / OLD.sha256).read_text()


def test_an_advisory_is_in_the_file_of_each_image_it_is_about(catalogue: Catalogue) -> None:
    advise(catalogue)
    assert {name for name, text in notices(catalogue).items() if "It hangs" in text} == {"all"}
    advise(catalogue, f'[match]\ndigests = ["sha256:{"9" * 64}"]\nmodules = ["PyTorch/2.7*"]\n')
    said = notices(catalogue)
    assert {name for name, text in said.items() if "It hangs" in text} == {"9" * 64, NEW.sha256}


@pytest.mark.parametrize(
    ("text", "more", "why"),
    [
        pytest.param(ADVISORY, "", ["a: all containers"], id="about every image"),
        pytest.param(
            ADVISORY,
            '[match]\nmodules = ["PyTorch/*"]',
            ["a: PyTorch/2.6 (deprecated), PyTorch/2.7"],
            id="about these",
        ),
        pytest.param(
            ADVISORY,
            f'[match]\ndigests = ["{"9" * 64}"]\nmodules = ["X/*"]',
            ["a: no container in the catalogue; users' own copies with these digests show it"],
            id="about one that somebody may have",
        ),
        pytest.param(
            ADVISORY,
            '[match]\nmodules = ["PyTroch/*"]',
            ["a: no container in the catalogue is called PyTroch/*"],
            id="a wrong name",
        ),
        pytest.param(
            ADVISORY.replace("2099", "2026"), "", ["a: expired on 2026-01-01, so it is not shown"], id="expired"
        ),
    ],
)
def test_the_containers_that_an_advisory_concerns_are_listed_or_why_there_are_none(
    catalogue: Catalogue, text: str, more: str, why: list[str]
) -> None:
    advise(catalogue, more, name="a", text=text)
    read = [one for one in read_advisories([catalogue]) if isinstance(one, Advisory)]
    assert list(describe_reach(catalogue, read, now=1_800_000_000.0)) == why


def test_a_broken_advisory_and_a_damaged_record_do_not_hide_others(catalogue: Catalogue) -> None:
    advise(catalogue, "nonsense = 1", name="a")
    advise(catalogue, name="b")
    catalogue.record_path("PyTorch", "2.4").write_text("{")
    told: list[str] = []
    write_notices(catalogue, tell=told.append)
    assert {path.name for path in catalogue.notices.iterdir()} == {"all", OLD.sha256}
    assert ["a.toml" in line and "nonsense: unknown key" in line for line in told] == [True]


def test_a_broken_advisory_gives_its_error_instead_of_its_value(catalogue: Catalogue) -> None:
    advise(catalogue, "nonsense = 1", name="a")
    advise(catalogue, name="b")
    (catalogue.advisories / "c.toml").write_bytes(b"\xff")
    (catalogue.advisories / "d.toml").write_bytes(b"#" * (2 << 20))
    (catalogue.advisories / "e.toml").mkdir()
    (catalogue.advisories / ".#b.toml").symlink_to("somebody@example.1234")  # as an editor leaves it while editing
    read = list(read_advisories([catalogue]))
    assert [isinstance(one, BadInputError) for one in read] == [True, False, True, True, True]
    utf8, directory = (one for one in read[2::2] if isinstance(one, BadInputError))
    assert utf8.cure == "Save it as UTF-8."
    assert "is a directory, expected a regular file" in directory.message


def test_matching_asks_image_host_environment_and_day(
    catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libfabric" / "1.23").mkdir(parents=True)
    host = f'[match.host]\nlibfabric = {{path = "{tmp_path}/libfabric/{{version}}", version = ">=1.22"}}\n'
    advise(catalogue, '[match]\nmodules = ["PyTorch/2.7"]\n[match.environment]\nA = "1"\n' + host)

    def found(module: str, sha256: str, **environ: str) -> list[str]:
        return [one.name for one in matching_advisories([catalogue], module, sha256, environ=environ, packages=())]

    assert found(NEW.module, NEW.sha256, A="1") == ["hangs"]
    assert found(NEW.module, NEW.sha256, A="2") == []
    assert found(OLD.module, OLD.sha256, A="1") == []
    monkeypatch.setattr("time.time", lambda: 5e9)
    assert found(NEW.module, NEW.sha256, A="1") == []


def test_modules_look_into_every_catalogue_that_is_known_when_they_are_installed(tmp_path: Path) -> None:
    environ = {"HPCMOD_CATALOGUE": f"{tmp_path}/a:b/c", "HOME": str(tmp_path)}
    plan = make_example("generic")
    runscripts = plan.runscripts._replace(site=plan.site._replace(catalogues=("/site",)))
    plan = replace(plan, runscripts=runscripts, spec=replace(plan.spec, root=str(tmp_path)))
    (tmp_path / "record.json").write_text(f'{{"image": {{"sha256": "{NEW.sha256}"}}}}')
    directories = [f"{tmp_path}/a/notices", str(Path("b/c/notices").absolute()), "/site/notices"]
    wanted = [f"{directory}/{name}" for directory in directories for name in ("all", NEW.sha256)]
    assert list(look_for_notices(plan, environ).notice_places) == wanted


@pytest.fixture
def loaded(catalogue: Catalogue, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell with a module of the catalogue loaded."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "record.json").write_text(f'{{"image": {{"sha256": "{NEW.sha256}"}}}}')
    here = {"HPCMOD_CATALOGUE": str(catalogue.directory), "HPCMOD_SITE": "generic", "HOME": str(tmp_path)}
    return {**here, "_HPCMOD_CONTAINER": "ai_container PyTorch/2.7", "CONTAINERROOT": str(root)}


def test_the_loaded_module_is_known_by_what_it_notes(loaded: dict[str, str]) -> None:
    found = find_loaded(loaded)
    assert (found.module, found.sha256) == ("PyTorch/2.7", NEW.sha256)
    assert find_loaded({}).module == ""
    assert find_loaded({**loaded, "CONTAINERROOT": "/nowhere"}).sha256 == ""


def test_doctor_tells_advisories_of_the_loaded_module_and_broken_ones(
    catalogue: Catalogue, loaded: dict[str, str]
) -> None:
    advise(catalogue, f'[match]\ndigests = ["{NEW.sha256}"]\n')
    advise(catalogue, "nonsense = 1", name="broken")
    found = list(check_advisories(loaded))
    assert [one.level for one in found] == ["warn", "warn"]
    assert "nonsense: unknown key" in found[0].found
    assert found[1].found == "PyTorch/2.7: It hangs"
    assert "https://example.org/1" in found[1].cure


def test_doctor_survives_a_missing_catalogue(tmp_path: Path) -> None:
    assert list(check_advisories({"HPCMOD_SITE": "generic", "HOME": str(tmp_path)})) == []
    (found,) = check_advisories({"HPCMOD_SITE": "generic", "HPCMOD_CATALOGUE": "/nowhere"})
    assert found.level == "warn"
