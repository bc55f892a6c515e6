from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.admin import lifecycle
from hpcmod.catalogue.admin.gc import find_unused
from hpcmod.catalogue.admin.refresh import RefreshResult, Wanted, refresh_containers
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.text.changes import describe_settings
from hpcmod.catalogue.values.record import refusal
from hpcmod.catalogue.visible.kept import read_files, render_kept_files
from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.tree import Tree
from hpcmod.images import Sif
from hpcmod.machine.machine import load_site
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import SiteBinds
from tests.plans import FACTS
from tests.unit.catalogue.rendered import make_rendered, visible
from tests.unit.catalogue.stage import ADA

pytestmark = pytest.mark.slow

GENERIC = load_site("generic", {})
SETTINGS = "runscripts/lib/settings.bash"
BOUND = GENERIC._replace(binds=SiteBinds(optional=((Bind("/scratch2"),),)))
DAY = 86400.0


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    monkeypatch.setattr(Sif, "facts", lambda _: FACTS)
    return make_rendered(tmp_path / "shop")


def renew(shop: Catalogue, site: Site, *, dry_run: bool = False) -> RefreshResult:
    return refresh_containers(shop, tuple(shop.records()), Wanted(site, {}), actor=ADA, dry_run=dry_run)


def test_up_to_date_installations_are_kept(shop: Catalogue) -> None:
    before = sorted(shop.directory.rglob("*"))
    assert renew(shop, GENERIC) == RefreshResult(False, 0, (), ())
    assert sorted(shop.directory.rglob("*")) == before


def test_a_dry_run_shows_the_lines_and_writes_nothing(shop: Catalogue) -> None:
    before = sorted(shop.directory.rglob("*"))
    (found,) = renew(shop, BOUND, dry_run=True).changed
    assert "module (Lua)" in found.files
    assert "runscripts/lib/settings.bash" in found.files
    assert found.lines == ("added bind path: /scratch2 (the easyconfig)",)
    assert sorted(shop.directory.rglob("*")) == before


GPUS = '[nodes.gpu]\npartitions = ["g"]\ngpus = 2\n'
CHANGES = {  # of profiles: before, after, and what a dry run tells
    "a variable on several nodes": (
        "",
        '[environment]\nNCCL_CROSS_NIC = { value = "1 #x", when = "multi-node" }',
        ["added variable on several nodes: NCCL_CROSS_NIC 1 #x"],
    ),
    "another value on one node": (
        '[environment]\nA = { value = "1", when = "single-node" }',
        '[environment]\nA = { value = "it\'s", when = "single-node" }',
        ["changed variable on one node: A 1 -> it's"],
    ),
    "cores": (
        f'{GPUS}cores = 64\ngpu_cores = ["0-7", "8-15"]',
        f'{GPUS}cores = 63\nreserved_cores = "0"\ngpu_cores = ["1-7", "8-15"]',
        [
            "changed cores near the GPUs of: g 0-7 8-15 -> 1-7 8-15",
            "changed node type: gpu cores 64, cpus 0-63, memory 0, gpus 2 -> cores 64, cpus 1-63, memory 0, gpus 2",
        ],
    ),
    "one value": ("[gpu]", '[gpu]\nper_rank = "one"', ["changed gpus per rank: all -> one"]),
}


@pytest.mark.parametrize(("old", "new", "lines"), CHANGES.values(), ids=CHANGES)
def test_what_only_scripts_have_is_told_with_its_file(
    shop: Catalogue, tmp_path: Path, old: str, new: str, lines: list[str]
) -> None:
    before, after = tmp_path / "before.toml", tmp_path / "after.toml"
    for path, text in ((before, old), (after, new)):
        path.write_text(f'name = "generic"\nextends = "generic"\n{text}\n')
    renew(shop, load_site(str(before), {}))
    (found,) = renew(shop, load_site(str(after), {}), dry_run=True).changed
    assert (found.lines, found.files) == (tuple(f"{SETTINGS}: {line}" for line in lines), (SETTINGS,))


@pytest.mark.parametrize("wrong", ["it's open", "", "_question={}", "_node_types=( 1 )", '"nodes": 3, "x": ['])
def test_settings_that_cannot_be_read_and_other_scripts_are_named(shop: Catalogue, wrong: str) -> None:
    files = dict(read_files(shop, next(shop.records())))
    damaged = files[SETTINGS].replace('"nodes": [', wrong) if "nodes" in wrong else wrong
    kept = {**files, SETTINGS: damaged, "bin/gone": "", "bin/torchrun": ""}
    (shop.kept / "Toy/1.0/files.json").write_text(render_kept_files(kept))
    (found,) = renew(shop, GENERIC, dry_run=True).changed
    assert found.lines == (f"scripts: bin/gone, bin/torchrun, {SETTINGS}",)


def test_conditions_in_settings_are_no_values(shop: Catalogue) -> None:
    text = read_files(shop, next(shop.records()))[SETTINGS]
    assert describe_settings(text.replace("\n[[ ", "\n# "), text) == []


def test_a_change_whose_description_could_not_be_removed_is_finished_though_nothing_is_to_be_renewed(
    shop: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending, remove = shop.directory / "pending.json", Tree.remove

    def fail(tree: Tree, path: Path) -> None:
        if path == pending:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        remove(tree, path)

    with monkeypatch.context() as patch, pytest.raises(OSError, match=os.strerror(errno.EIO)):
        patch.setattr(Tree, "remove", fail)
        renew(shop, BOUND)
    changes = read_journal(shop.directory)
    assert pending.exists()
    assert renew(shop, BOUND) == RefreshResult(False, 0, (), ())
    assert not pending.exists()
    assert read_journal(shop.directory) == changes


def test_a_new_profile_reaches_users_and_undo_restores_every_byte(shop: Catalogue) -> None:
    before = visible(shop)
    done = renew(shop, BOUND)
    assert done.change == 2
    assert "/scratch2" in visible(shop)["software/Toy/1.0/runscripts/lib/settings.bash"]
    assert (read_journal(shop.directory)[-1].verb, renew(shop, BOUND).changed) == ("refresh", ())
    lifecycle.undo(shop, 2, actor=ADA)
    assert visible(shop) == before
    lifecycle.undo(shop, 3, actor=ADA)
    assert "/scratch2" in visible(shop)["software/Toy/1.0/runscripts/lib/settings.bash"]


def test_the_wrapper_of_a_deleted_command_is_removed(shop: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sif, "facts", lambda _: replace(FACTS, commands=("python",)))
    renew(shop, GENERIC)
    assert not (shop.software / "Toy/1.0/bin/torchrun").exists()
    lifecycle.undo(shop, 2, actor=ADA)
    assert (shop.software / "Toy/1.0/bin/torchrun").stat().st_mode & 0o111


def test_a_container_that_cannot_be_rendered_is_reported_and_left(shop: Catalogue) -> None:
    (shop.kept / "Toy/1.0/easyconfig").write_text("import os\nname = 'Toy'\ndescription = os.getcwd()\n")
    done = renew(shop, BOUND)
    assert (done.changed, done.change) == ((), 0)
    assert "description cannot be read" in done.faults[0].message


def test_another_machine_is_refused(shop: Catalogue) -> None:
    with pytest.raises(BadInputError, match=r"published with the profile generic, but .* is lumi"):
        renew(shop, load_site("lumi", {}))


def test_the_cure_for_another_machine_names_the_file_of_the_profile_while_it_has_that_name(
    shop: Catalogue, tmp_path: Path
) -> None:
    ours = tmp_path / "ours.toml"
    ours.write_text('name = "ours"\nextends = "generic"\n[images]\nplaces = ["/x"]\n')
    wanted = Wanted(load_site(str(ours), {}), {}, adopt=True)
    refresh_containers(shop, tuple(shop.records()), wanted, actor=ADA)
    with pytest.raises(BadInputError, match="published with the profile ours") as known:
        renew(shop, load_site("lumi", {}))
    change = "To change: hpcmod catalogue refresh NAME --site FILE (of lumi)"
    assert known.value.cure == f"To keep: --site {ours}. {change}"
    ours.write_text('name = "other"\nextends = "generic"\n')
    with pytest.raises(BadInputError) as unknown:
        renew(shop, load_site("lumi", {}))
    assert unknown.value.cure == f"To keep: --site FILE (of ours). {change}"


def test_a_restricted_or_removed_image_is_reported_as_that(shop: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = shop.records()
    with monkeypatch.context() as patch:
        patch.setattr("hpcmod.catalogue.admin.refresh.is_refused", lambda *_: True)
        (fault,) = renew(shop, BOUND).faults
    assert (fault.message, fault.cure) == (refusal(record), "")
    (shop.images / record.sif).unlink()
    (fault,) = renew(shop, BOUND).faults
    assert fault.message.startswith("Toy/1.0: its image was removed")


def test_gc_removes_old_renderings(shop: Catalogue) -> None:
    renew(shop, BOUND)
    now = shop.record_path("Toy", "1.0").stat().st_mtime
    assert [one for one in find_unused(shop, days=30, now=now + 29 * DAY) if one.remove] == []
    old = {one.what for one in find_unused(shop, days=30, now=now + 31 * DAY) if one.what.startswith("kept/")}
    assert old == {"kept/Toy/1.0"}
