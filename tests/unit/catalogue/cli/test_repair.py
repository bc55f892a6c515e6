from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.installations import install


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of PyTorch that lacks its wrapper of python."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    install(tmp_path, "PyTorch/2.6")
    found = tmp_path / "software/PyTorch/2.6"
    (found / "easybuild").mkdir()
    (found / "easybuild/PyTorch-2.6.eb").touch()
    return found


def test_a_failed_repair_exits_with_the_status_of_eb(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcmod.modules.shared_prefix.call_eb", lambda *_, **__: 5)
    done = hpcmod("repair", "PyTorch")
    assert (done.exit_code, "bin/python" in done.stdout) == (5, True)


def test_a_damaged_image_is_taken_from_its_source(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def call(arguments: Sequence[str], environ: Mapping[str, str], **_: object) -> int:
        called.append(environ)
        return 0

    monkeypatch.setattr("hpcmod.modules.shared_prefix.call_eb", call)
    (root / "bin/python").chmod(0o755)
    (root / "x.sif").unlink()
    done = hpcmod("repair", "PyTorch", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["status"]) == (4, 4)  # the fake eb changed nothing
    assert [one["subject"] for one in found["left"]] == ["image"]
    assert str(root) not in called[0]["EASYBUILD_ROBOT_PATHS"].split(":")
    assert "HPCMOD_UPDATE" not in called[0]


def test_an_installation_of_someone_else_is_not_repaired(root: Path) -> None:
    done = hpcmod("repair", "Other")
    assert (done.exit_code, "you have no installation of Other" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    ("words", "site", "told"),
    [
        (("repair", "PyTorch"), "lumi", "using lumi, for which PyTorch/2.6 was installed; for generic: --site generic"),
        (("update", "PyTorch"), "lumi", "for generic: --site generic"),
        (("update", "PyTorch", "--site", "frontier"), "frontier", ""),
    ],
)
def test_an_installation_stays_on_its_machine(
    root: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], site: str, told: str
) -> None:
    sites = []
    monkeypatch.setattr("hpcmod.modules.shared_prefix.call_eb", lambda _, environ, **__: sites.append(environ) or 5)
    record = json.loads((root / "record.json").read_text())
    (root / "record.json").write_text(json.dumps({**record, "site": "lumi"}))
    done = hpcmod(*words)
    assert [environ["HPCMOD_SITE"] for environ in sites] == [site]
    assert told in done.stderr
