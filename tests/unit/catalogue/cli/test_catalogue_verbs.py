from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.core.cli.main import main
from hpcmod.core.fs.ownership import group_name
from hpcmod.images import Sif
from tests.plans import FACTS
from tests.unit.catalogue.rendered import make_rendered, visible

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    monkeypatch.setattr(Sif, "facts", lambda _: FACTS)
    return make_rendered(tmp_path / "shop")


def call(place: Path | str, *words: str, site: str = "generic") -> Result:
    return CliRunner(env={"HPCMOD_CATALOGUE": str(place), "HPCMOD_SITE": site}).invoke(main, ["catalogue", *words])


def profile(tmp_path: Path) -> str:
    path = tmp_path / "site.toml"
    path.write_text('name = "generic"\nextends = "generic"\n[binds]\noptional = ["/scratch2"]\n')
    return str(path)


def test_refresh_tells_what_it_changed_and_how_to_revert_it(shop: Catalogue, tmp_path: Path) -> None:
    site = profile(tmp_path)
    dry = call(shop.directory, "refresh", "--dry-run", site=site)
    assert "Toy/1.0: module (Lua), " in dry.stdout
    assert "  added bind path: /scratch2 (site profile site.toml)\n" in dry.stdout
    done = json.loads(call(shop.directory, "refresh", "Toy", "--json", site=site).stdout)
    assert (done["change"], [one["module"] for one in done["changed"]]) == (2, ["Toy/1.0"])
    assert "up to date" in call(shop.directory, "refresh", site=site).stderr
    assert "container Toj not found" in call(shop.directory, "refresh", "Toj", site=site).stderr


def test_refresh_of_what_cannot_be_rendered_is_a_failed_check(shop: Catalogue) -> None:
    (shop.kept / "Toy/1.0/easyconfig").write_text("import os\nname = 'Toy'\ndescription = os.getcwd()\n")
    done = call(shop.directory, "refresh")
    assert (done.exit_code, "not changed: Toy-1.0.eb: description" in done.stderr) == (1, True)


def test_verify_names_wrong_modes_and_fixes_them(shop: Catalogue) -> None:
    (shop.software / "Toy/1.0").chmod(0o700)
    done = call(shop.directory, "verify")
    assert done.exit_code == 1
    assert f"{shop.software / 'Toy/1.0'}: drwx------ " in done.stdout
    assert "hpcmod catalogue verify --fix-modes" in done.stdout
    done = call(shop.directory, "verify", "--fix-modes", "--json")
    found = {one["subject"]: one["found"] for one in json.loads(done.stdout)["findings"]}
    assert found["modes"].endswith(" fixed")
    assert (shop.software / "Toy/1.0").stat().st_mode & 0o777 == 0o755


def test_what_fix_modes_leaves_is_set_by_one_command_that_verify_names_at_once(shop: Catalogue) -> None:
    """Others may write these directories, so the files may be others'."""
    for place in (shop.directory, shop.images, shop.software / "Toy/1.0", shop.easyconfigs):
        place.chmod(0o2775)
    call(shop.directory, "init", str(shop.directory))
    call(shop.directory, "verify", "--fix-modes")
    for path in (shop.images / "new.sif", shop.software / "Toy/1.0/it's mine", shop.easyconfigs / "x.eb"):
        path.touch(0o600)
        os.chown(path, -1, shop.directory.stat().st_gid)
    for words in (("verify",), ("verify", "--fix-modes"), ("verify",)):
        done = call(shop.directory, *words)
        assert (done.exit_code, "To set modes" in done.stdout) == (1, False)
        command = done.stdout.partition("If these files belong to the catalogue: ")[2].partition("; otherwise")[0]
        assert (command.startswith("chmod 664 "), "new.sif" in command) == (True, False)
        assert f"{shop.images / 'new.sif'}: -rw------- {group_name(os.getegid())}, of no container" in done.stdout
        assert "Publish it, or leave it to: hpcmod catalogue gc" in " ".join(done.stdout.split())
    subprocess.run(["bash", "-c", command], check=True)
    assert "fail modes" not in " ".join(call(shop.directory, "verify").stdout.split())


def test_verify_notices_a_copy_and_rebuild_repairs_it(shop: Catalogue, tmp_path: Path) -> None:
    shutil.copytree(shop.directory, tmp_path / "copy")
    (tmp_path / "copy/modules/all/Toy/1.0.lua").unlink()
    assert "not as published" in call(tmp_path / "copy", "verify").stdout
    assert call(tmp_path / "copy", "rebuild").exit_code == 0
    assert "not as published" not in call(tmp_path / "copy", "verify").stdout
    assert str(tmp_path / "copy/software") in "".join(visible(Catalogue(tmp_path / "copy")).values())


@pytest.mark.parametrize("text", ["", "{", None], ids=["emptied", "garbage", "deleted"])
def test_rebuild_restores_a_lost_record_from_the_journal(shop: Catalogue, text: str | None) -> None:
    path, before = shop.record_path("Toy", "1.0"), visible(shop)
    record = path.read_bytes()
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    for words in (("verify",), ("verify", "Toy/1.0")):
        told = " ".join(call(shop.directory, *words).stdout.split())
        assert f"fail Toy/1.0 record: {path}" in told and "hpcmod catalogue rebuild" in told
    done = call(shop.directory, "gc", "--days", "0")
    assert (done.exit_code, f"{path} is lost" in done.stderr) == (2, True)
    assert f"restored from the journal: {path}" in call(shop.directory, "rebuild").stderr
    assert (path.read_bytes(), visible(shop)) == (record, before)
    assert "record: " not in " ".join(call(shop.directory, "verify").stdout.split())


def test_a_record_that_was_changed_by_hand_is_told_and_restored(shop: Catalogue) -> None:
    path = shop.record_path("Toy", "1.0")
    record = path.read_text()
    path.write_text(record.replace('"size": ', '"size": 1'))
    told = " ".join(call(shop.directory, "verify").stdout.split())
    assert f"fail Toy/1.0 record: {path} is not as published" in told
    place = shop.software / "Toy/1.0"
    place.chmod(0o700)  # who may read an image is in the records: they come first
    told = " ".join(call(shop.directory, "verify", "--fix-modes").stdout.split())
    assert ("warn modes: not checked: restore the records first" in told, place.stat().st_mode & 0o777) == (True, 0o700)
    subprocess.run(["bash", "-c", f"rm {path}"], check=True)
    call(shop.directory, "rebuild")
    assert path.read_text() == record


def test_what_the_journal_lacks_is_told(shop: Catalogue) -> None:
    """An hpcmod before 1.0.0 wrote three fields of a new record."""
    journal = shop.directory / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for edit in (edit for line in lines for edit in line["edits"] if edit["before"] is None):
        edit["after"] = {name: edit["after"][name] for name in ("sha256", "state", "aliases")}
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert "record: " not in " ".join(call(shop.directory, "verify").stdout.split())
    path = shop.record_path("Toy", "1.0")
    path.write_text("{")
    done = call(shop.directory, "rebuild")
    assert (done.exit_code, f"or: rm {path}; then publish its image again" in done.stderr) == (2, True)
    journal.write_text(journal.read_text() + "{g\n")
    for words in (("verify",), ("rebuild",), ("journal",)):
        done = call(shop.directory, *words)
        assert f"sed -i {len(lines) + 1}d {journal}" in " ".join(f"{done.stdout}{done.stderr}".split())


def test_rebuild_keeps_aliases_and_names_what_it_could_not_render(shop: Catalogue) -> None:
    call(shop.directory, "promote", "Toy/1.0")
    before = visible(shop)
    shutil.rmtree(shop.kept / "Toy/1.0")
    done = call(shop.directory, "rebuild")
    assert (done.exit_code, f"not regenerated: Toy/1.0: missing: {shop.kept / 'Toy/1.0'}" in done.stderr) == (1, True)
    assert "hpcmod publish IMAGE --name Toy --version 1.0" in done.stderr
    assert visible(shop) == before


def test_move_prints_the_new_path_and_the_remaining_steps(shop: Catalogue, tmp_path: Path) -> None:
    assert call(shop.directory, "move", str(tmp_path / "new"), "--dry-run").stdout == f"{tmp_path / 'new'}\n"
    assert not (tmp_path / "new").exists()
    done = call(shop.directory, "move", str(tmp_path / "new"))
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'new'}\n")
    assert "MODULEPATH" in done.stderr
    assert "not as published" not in call(tmp_path / "new", "verify").stdout


@pytest.mark.parametrize("words", [("rebuild",), ("verify",), ("journal",)])
def test_a_deleted_catalogue_does_not_affect_another(shop: Catalogue, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = call(f"{shop.directory}:{tmp_path / 'gone'}", *words)
    assert done.exit_code == (1 if words == ("verify",) else 0)
    assert f"skipped: {tmp_path / 'gone'} is not a catalogue" in done.stderr
    done = call(f"{tmp_path / 'gone'}:{shop.directory}", *words)
    assert done.exit_code == 3
