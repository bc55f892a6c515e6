from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record


def test_doctor_exits_with_1_and_a_cure_if_something_will_not_work(tmp_path: Path) -> None:
    result = hpcmod("doctor", PATH=str(tmp_path))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    at = lines.index("fail runtime: neither singularity nor apptainer on PATH")
    assert lines[at + 1].startswith("     ")


@pytest.mark.slow
def test_doctor_reports_missing_files_unless_the_site_retired_the_container(tmp_path: Path) -> None:
    records = (make_record("Toy/1.0", state="retired"), make_record("Toy/2.0"))
    catalogue = make_catalogue(tmp_path / "catalogue", *records)
    for version in ("1.0", "2.0"):
        modulefile = catalogue.modules / "Toy" / f"{version}.lua"
        modulefile.parent.mkdir(parents=True, exist_ok=True)
        modulefile.write_text(f'-- Written by hpcmod.\nlocal root = "{catalogue.software}/Toy/{version}"\n')
    environ = {"HPCMOD_CATALOGUE": str(catalogue.directory), "MODULEPATH": str(catalogue.modules), "PATH": "/nowhere"}
    found = [line for line in hpcmod("doctor", **environ).stdout.splitlines() if "installation" in line]
    assert [line.partition(":")[0] for line in found] == ["fail installation Toy/2.0"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("Toy",)], ids=["all", "one"])
def test_for_a_damaged_published_container_there_is_one_cure(tmp_path: Path, words: tuple[str, ...]) -> None:
    catalogue = make_catalogue(tmp_path / "catalogue", make_record("Toy/1.0", reference="docker://host/toy:1"))
    root, modulefile = catalogue.software / "Toy/1.0", catalogue.modules / "Toy/1.0.lua"
    for directory in (root, modulefile.parent):
        directory.mkdir(parents=True)
    modulefile.write_text(f'-- Written by hpcmod.\nlocal root = "{root}"\n')
    (root / "Toy-1.0.sif").write_bytes(b"half")
    image = {"path": str(root / "Toy-1.0.sif"), "size": 5, "sha256": "0" * 64}
    (root / "record.json").write_text(json.dumps({"module": "Toy/1.0", "image": image}))
    environ = {"HPCMOD_CATALOGUE": str(catalogue.directory), "MODULEPATH": str(catalogue.modules), "PATH": "/nowhere"}
    cures = []
    for _ in ("a user", "an admin"):
        findings = json.loads(hpcmod("doctor", *words, "--json", **environ).stdout)["findings"]
        cures += [finding["cure"] for finding in findings if "Toy" in finding["subject"] and finding["level"] == "fail"]
        catalogue.locks.mkdir(exist_ok=True)
    again = "Publish its image again: hpcmod publish docker://host/toy:1 --name Toy --version 1.0"
    assert cures == ["Verify it, and send what that finds to your support team: hpcmod verify Toy/1.0", again]


@pytest.mark.slow
def test_a_copy_of_the_site_is_not_for_its_users_to_update(tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path / "catalogue", make_record("Toy/1.0"))
    root, modulefile = catalogue.software / "Toy/1.0", catalogue.modules / "Toy/1.0.lua"
    for directory in (root, modulefile.parent):
        directory.mkdir(parents=True)
    modulefile.write_text(f'-- Written by hpcmod.\nlocal root = "{root}"\n')
    (root / "record.json").write_text(json.dumps({"module": "Toy/1.0"}))
    environ = {"HPCMOD_CATALOGUE": str(catalogue.directory), "MODULEPATH": str(catalogue.modules), "PATH": "/nowhere"}
    findings = json.loads(hpcmod("doctor", "Toy", "--json", **environ).stdout)["findings"]
    cures = {finding["cure"] for finding in findings if finding["level"] in ("unknown", "fail")}
    assert cures == {"Verify it, and send what that finds to your support team: hpcmod verify Toy/1.0"}


def test_doctor_gives_one_versioned_object_for_programs(tmp_path: Path) -> None:
    found = json.loads(hpcmod("doctor", "--json", PATH=str(tmp_path)).stdout)
    assert found["version"] == 1
    failed = {finding["subject"] for finding in found["findings"] if finding["level"] == "fail"}
    assert {"easyblock", "runtime"} <= failed


def test_doctor_checks_a_shared_directory(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    (tmp_path / "x").chmod(0o666)
    result = hpcmod("doctor", "--security", str(tmp_path))
    assert result.exit_code == 1
    assert "fail world-writable: 1 (" in result.stdout
    assert hpcmod("doctor", "--security", str(tmp_path), "x.sif").exit_code == 2
    assert hpcmod("doctor", "--security", str(tmp_path / "nowhere")).exit_code == 2
