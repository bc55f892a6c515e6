from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import Result

from tests.calls import hpcmod
from tests.installations import install


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the user's own installations of two versions of PyTorch."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    for module in ("PyTorch/2.6", "PyTorch/2.7"):
        install(tmp_path, module)
    return tmp_path


def files(top: Path) -> list[Path]:
    return sorted(path for path in top.rglob("*") if path.is_file())


def refused(top: Path, *words: str) -> Result:
    """Run `hpcmod remove`; check that it fails and changes nothing."""
    before = files(top)
    result = hpcmod("remove", *words)
    assert result.exit_code not in (0, 1), result.output
    assert files(top) == before
    return result


@pytest.mark.parametrize("name", ["PyTorch", "PyTorch/", "PyTorch/2", "PyTorch/2.", "pytorch/2.6", "", "/", ".."])
def test_removes_nothing_unless_exactly_one_installation_matches(top: Path, name: str) -> None:
    refused(top, name)


def test_does_not_remove_published_containers(top: Path) -> None:
    (top / "catalogue.json").write_text("{}")
    assert "is published" in refused(top, "PyTorch/2.6").stderr


@pytest.mark.parametrize("has_file", [True, False])
def test_a_catalogue_that_is_not_configured_or_lost_its_file_is_nobodys_own_installation(
    top: Path, has_file: bool
) -> None:
    if has_file:
        (top / "catalogue.json").write_text("{}")  # as the old one after `hpcmod catalogue move`
    else:
        (top / "records").mkdir()
        assert "hpcmod catalogue init" in hpcmod("verify", "PyTorch/2.6").stderr
        assert "is published" in refused(top, "PyTorch/2.6").stderr
    assert json.loads(hpcmod("ls", "--json").stdout)["containers"] == []
    assert "nothing is outdated" in hpcmod("outdated").stderr
    assert hpcmod("update", "--all", "--dry-run").stdout == ""
    for verb in ("update", "repair"):
        assert "is published in the catalogue" in hpcmod(verb, "PyTorch/2.6", "--dry-run").stderr


def test_a_loaded_module_is_not_removed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_HPCMOD_CONTAINER", "PyTorch/2.6")
    assert "module unload PyTorch/2.6" in refused(top, "PyTorch/2.6").stderr
    monkeypatch.setenv("_HPCMOD_CONTAINER", "ai Tool/1.0")  # which was loaded after it
    monkeypatch.setenv("LOADEDMODULES", "Tool/1.0:PyTorch/2.6")
    assert "module unload PyTorch/2.6" in refused(top, "PyTorch/2.6").stderr


def test_an_image_that_another_installation_uses_is_not_removed(top: Path) -> None:
    record = top / "software/PyTorch/2.7/record.json"
    record.write_text(record.read_text().replace("2.7/x.sif", "2.6/x.sif"))
    assert "PyTorch/2.7 uses the image" in refused(top, "PyTorch/2.6").stderr


def test_a_dry_run_lists_what_it_would_remove_and_removes_nothing(top: Path) -> None:
    before = files(top)
    result = hpcmod("remove", "--dry-run", "PyTorch/2.6")
    assert files(top) == before
    root = top / "software/PyTorch/2.6"
    removed = [root / name for name in ("bin", "libexec", "record.json", "x.sif")]
    assert set(result.stdout.split()) == set(map(str, [top / "modules/all/PyTorch/2.6.lua", *removed]))


@pytest.mark.parametrize(("answer", "left"), [("n\n", 2), ("y\n", 1)])
def test_remove_asks_on_a_terminal(top: Path, monkeypatch: pytest.MonkeyPatch, answer: str, left: int) -> None:
    monkeypatch.setattr("hpcmod.catalogue.cli.installed.on_a_terminal", lambda: True)
    mine = top / "software/PyTorch/2.6/user-software"
    mine.mkdir()
    (mine / "mine.py").touch()
    done = hpcmod("remove", "PyTorch/2.6", "--with-packages", answer=answer)
    assert f"Remove PyTorch/2.6 from {mine.parent} with your own packages in {mine}?" in done.output
    assert len(list(top.glob("modules/all/PyTorch/2*"))) == left


def test_remove_asks_nothing_with_yes_or_in_a_script(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hpcmod("remove", "PyTorch/2.6").exit_code == 0
    assert {path.relative_to(top).parts[-2] for path in files(top)} == {"PyTorch", "2.7", "bin", "libexec"}
    monkeypatch.setattr("hpcmod.catalogue.cli.installed.on_a_terminal", lambda: True)
    assert hpcmod("remove", "--yes", "PyTorch").exit_code == 0  # of which there is one version left
    assert files(top) == []


def test_remove_leaves_no_empty_directories(top: Path) -> None:
    for one in top.glob("software/PyTorch/*"):
        (one / "user-software/venv/pytorch/bin").mkdir(parents=True)
        (one / "user-software/venv/pytorch/pyvenv.cfg").touch()
    for version in ("2.6", "2.7"):
        assert hpcmod("remove", f"PyTorch/{version}").exit_code == 0
    assert [path.name for path in top.iterdir()] == []


def test_remove_names_the_packages_that_it_keeps(top: Path) -> None:
    mine = top / "software/PyTorch/2.6/user-software/venv/mine.py"
    mine.parent.mkdir(parents=True)
    mine.touch()
    assert f"to remove them: rm -r {mine.parents[1]}" in hpcmod("remove", "PyTorch/2.6").stderr
    assert mine.exists()


def test_remove_tells_what_space_the_image_that_was_fetched_still_takes(top: Path) -> None:
    record, fetched = top / "software/PyTorch/2.6/record.json", top / "sources/x.sif"
    fetched.parent.mkdir()
    fetched.write_bytes(bytes(5000))
    fetched.with_suffix(".eb").touch()
    known = json.loads(record.read_text())
    known["image"]["source"] = str(fetched)
    record.write_text(json.dumps(known))
    said = " ".join(hpcmod("remove", "PyTorch/2.6").stderr.split())
    assert f"to free these 5.0 kB, too: rm {fetched}* {fetched.with_suffix('.eb')}" in said


def test_update_as_json_has_the_status_of_each(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: Sequence[str], environ: Mapping[str, str], **_: object) -> int:
        return 1

    monkeypatch.setattr("hpcmod.modules.shared_prefix.call_eb", fail)
    (top / "software/PyTorch/2.6/easybuild").mkdir()
    (top / "software/PyTorch/2.6/easybuild/PyTorch-2.6.eb").touch()
    done = hpcmod("update", "--all", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["status"]) == (3, 3)
    assert {one["module"]: one["status"] for one in found["containers"]} == {"PyTorch/2.6": 1, "PyTorch/2.7": 3}
    assert "no easyconfig" in found["containers"][1]["error"]


def test_update_prints_its_command_and_refuses_a_loaded_module(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = top / "software/PyTorch/2.6/easybuild/PyTorch-2.6.eb"
    recipe.parent.mkdir()
    recipe.touch()
    printed = hpcmod("update", "PyTorch/2.6", "--dry-run").stdout
    assert "PyTorch-2.6.eb" in printed
    assert json.loads(hpcmod("update", "PyTorch/2.6", "--dry-run", "--json").stdout)["dry_run"]
    monkeypatch.setenv("_HPCMOD_CONTAINER", "PyTorch/2.6")
    assert "module unload PyTorch/2.6" in hpcmod("update", "PyTorch/2.6").stderr


def test_verify_checks_an_installation_that_is_not_published(top: Path) -> None:
    done = hpcmod("verify", "PyTorch/2.6")
    assert (done.exit_code, "fail    image: the image has 4 bytes, expected 3" in done.stdout) == (4, True), done.output
    assert "hpcmod repair PyTorch/2.6" in done.stdout
    for option in (("--key", "x.pub"), ("--checksum", "0" * 64)):
        done = hpcmod("verify", "PyTorch/2.6", *option)
        assert (done.exit_code, "PyTorch/2.6 is a container: --key" in done.stderr) == (2, True), done.output
