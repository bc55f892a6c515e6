from __future__ import annotations

import grp
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod.catalogue.cli.options import show_change
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.journal import Change, Edit
from hpcmod.core.cli.main import main
from tests.calls import hpcmod
from tests.unit.catalogue.stage import make_shop

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    return make_shop(tmp_path / "shop", "Toy/1.0", "Toy/2.0")


def call(shop: Catalogue, *words: str) -> Result:
    return CliRunner(env={"HPCMOD_CATALOGUE": str(shop.directory), "HPCMOD_SITE": "generic"}).invoke(main, words)


def lines(shop: Catalogue, *words: str) -> list[str]:
    done = call(shop, *words)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_a_change_is_shown_field_by_field_and_how_to_revert_it(shop: Catalogue) -> None:
    done = call(shop, "catalogue", "promote", "Toy/2.0")
    assert done.stdout == "Toy/2.0: aliases: none -> stable\n"
    assert done.stderr == "hpcmod: change 3; to revert it: hpcmod catalogue undo 3\n"
    assert lines(shop, "catalogue", "undo", "3") == ["Toy/2.0: aliases: stable -> none"]


def test_renewed_scripts_are_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    edits = (Edit("Toy", "1.0", {"rendering": "39"}, {"rendering": ""}),)
    show_change(Change(40, "", "", "undo refresh", "", edits), as_json=False, dry_run=False)
    assert capsys.readouterr().out == "Toy/1.0: modules and scripts: as of change 39 -> as published\n"


def test_checks_are_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    repaired = [{"name": "eb: loads", "passed": True, "sha256": "", "under": "", "when": "2026-11-28T23:10:42Z"}]
    edits = (Edit("Toy", "1.0", {"checks": []}, {"checks": repaired}),)
    show_change(Change(40, "", "", "undo repair", "", edits), as_json=False, dry_run=False)
    assert capsys.readouterr().out == "Toy/1.0: checks: none -> 1 passed at 2026-11-28T23:10:42Z\n"


def test_a_dry_run_shows_the_same_and_changes_nothing(shop: Catalogue) -> None:
    dry = lines(shop, "catalogue", "deprecate", "Toy/1.0", "--successor", "Toy/2.0", "--dry-run")
    assert lines(shop, "catalogue", "deprecate", "Toy/1.0", "--successor", "Toy/2.0") == dry


def test_deprecating_again_shows_the_changes_and_keeps_the_other_options(shop: Catalogue) -> None:
    call(
        shop, "catalogue", "deprecate", "Toy/1.0", "--until", "2999-01-01", "--successor", "Toy/2.0", "--reason", "old"
    )
    later = ("catalogue", "deprecate", "Toy/1.0", "--until", "2999-02-01")
    assert lines(shop, *later, "--dry-run") == ["Toy/1.0: until: 2999-01-01 -> 2999-02-01"]
    assert lines(shop, *later) == ["Toy/1.0: until: 2999-01-01 -> 2999-02-01"]
    assert lines(shop, "catalogue", "deprecate", "Toy/1.0", "--successor", "") == [
        "Toy/1.0: successor: Toy/2.0 -> none"
    ]
    assert shop.read("Toy", "1.0").notice.reason == "old"
    assert call(shop, "catalogue", "deprecate", "Toy/1.0").stderr == "hpcmod: no change needed\n"


def test_a_day_that_is_over_is_reported_and_a_reason_of_many_lines_is_shown_as_one(shop: Catalogue) -> None:
    done = call(shop, "catalogue", "deprecate", "Toy/1.0", "--until", "2020-01-01", "--reason", "old\nand 'slow'")
    assert "reason: none -> old and 'slow'" in done.stdout.splitlines()[0]
    assert "hpcmod: --until 2020-01-01: this date has passed\n" in done.stderr
    done = call(shop, "catalogue", "deprecate", "Toy/1.0", "--until", "2999-01-01", "--successor", "Toy/2.0")
    assert "hpcmod: --" not in done.stderr
    assert "Did you mean Toy?" in call(shop, "catalogue", "retire", "Toy/1.0", "--successor", "Tyo/2.0").stderr


def test_json_tells_the_whole_change(shop: Catalogue) -> None:
    done = call(shop, "catalogue", "retire", "Toy/1.0", "-m", "why", "--json")
    found = json.loads(done.stdout)
    assert (found["version"], found["dry_run"]) == (1, False)
    change = found["change"]
    assert (change["verb"], change["why"], change["id"]) == ("retire", "why", 3)
    before, after = {"reason": "", "state": "published"}, {"reason": "why", "state": "retired"}
    assert change["edits"] == [{"name": "Toy", "version": "1.0", "before": before, "after": after}]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(("catalogue", "retire", "Toy"), 2, "Give one: Toy/1.0 or Toy/2.0", id="no version"),
        pytest.param(("catalogue", "retire", "Toy/9"), 3, "no version 9 of Toy", id="unknown version"),
        pytest.param(("catalogue", "promote", "Tory/1.0"), 3, "Did you mean Toy?", id="misspelt"),
        pytest.param(
            ("catalogue", "promote", "--remove", "Toy/1.0", "--alias", "x"),
            2,
            "does not point to Toy/1.0",
            id="not its alias",
        ),
        *(
            pytest.param(
                ("catalogue", "deprecate", "Toy/1.0", "--until", day), 2, f"--until {day}: not a valid", id=day
            )
            for day in ("soon", "2027-02-31", "2027-13-01")
        ),
        pytest.param(("catalogue", "gc", "--days", "-1"), 2, "not in the range", id="days before today"),
        pytest.param(("catalogue", "undo", "99"), 3, "change 99 not found", id="unknown change"),
        pytest.param(
            ("catalogue", "retire", "Toy/1.0", "--catalogue", "/nowhere"),
            3,
            "/nowhere is not a catalogue",
            id="no catalogue",
        ),
        pytest.param(("publish", "docker://localhost/x"), 2, "--version", id="no version"),
    ],
)
def test_reports_invalid_requests_with_cure_and_exit_code(
    shop: Catalogue, words: tuple[str, ...], code: int, said: str
) -> None:
    done = call(shop, *words)
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


def test_without_a_catalogue_its_ways_to_be_named_are_reported(tmp_path: Path) -> None:
    nowhere = {"HPCMOD_CATALOGUE": "", "HPCMOD_SITE": "generic", "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = hpcmod("catalogue", "undo", **nowhere)
    assert done.exit_code == 3
    assert "hpcmod catalogue init DIRECTORY" in done.stderr


def test_the_journal_says_who_did_what_when_and_why(shop: Catalogue) -> None:
    call(shop, "catalogue", "promote", "Toy/2.0", "-m", "two weeks\nwithout \x1b[2J a complaint")
    call(shop, "catalogue", "undo")
    first, second, promoted, undone = lines(shop, "catalogue", "journal")
    assert first.endswith(" publish Toy/1.0, by ada@login1: because")
    assert second.endswith(" publish Toy/2.0, by ada@login1: because")
    assert promoted.endswith(": two weeks without ?[2J a complaint")
    assert "undo promote Toy/2.0 (reverts 3), by " in undone
    assert lines(shop, "catalogue", "journal", "Toy/1.0") == [first]
    assert len(json.loads(call(shop, "catalogue", "journal", "Toy", "--json").stdout)["changes"]) == 4


def test_making_a_catalogue_again_changes_only_the_given_settings(shop: Catalogue) -> None:
    lines(shop, "catalogue", "init", str(shop.directory), "--count-use")
    lines(shop, "catalogue", "init", str(shop.directory))
    assert json.loads((shop.directory / "catalogue.json").read_text()) == {
        "counts_use": True, "format": 1, "group": "", "mode": 0o755, "name": "shop", "site": "generic"
    }  # fmt: skip
    group = grp.getgrgid(os.getgid()).gr_name
    lines(shop, "catalogue", "init", str(shop.directory), "--group", group)
    shop.directory.chmod(0o755)  # as tar restores it
    lines(shop, "catalogue", "init", str(shop.directory))
    kept = json.loads((shop.directory / "catalogue.json").read_text())
    assert (kept["group"], kept["mode"], shop.directory.stat().st_mode & 0o7777) == (group, 0o2775, 0o2775)


def test_a_catalogue_that_lost_its_file_is_made_again_with_its_group_and_mode(shop: Catalogue) -> None:
    group, path = grp.getgrgid(os.getgid()).gr_name, shop.directory / "catalogue.json"
    lines(shop, "catalogue", "init", str(shop.directory), "--group", group)
    before = json.loads(path.read_text())
    command = f"hpcmod catalogue init --group {group} {shop.directory}"
    path.write_text("")
    assert f"rm {path}; {command}" in " ".join(call(shop, "catalogue", "verify").stderr.split())
    path.unlink()
    assert f": {command}" in " ".join(call(shop, "catalogue", "verify").stderr.split())
    for words in (("--group", group), ()):
        path.unlink(missing_ok=True)
        lines(shop, "catalogue", "init", str(shop.directory), "--name", "shop", *words)
        assert (json.loads(path.read_text()), shop.directory.stat().st_mode & 0o7777) == (before, 0o2775)


def test_undo_without_a_number_does_not_skip_the_last_change(shop: Catalogue) -> None:
    call(shop, "catalogue", "undo", "2")
    call(shop, "catalogue", "gc", "--days", "0")
    before = lines(shop, "catalogue", "journal")
    for words in (("undo",), ("undo", "--dry-run")):
        done = call(shop, "catalogue", *words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "the last change, 4 (gc), cannot be undone: it removed files" in " ".join(done.stderr.split())
        assert "hpcmod catalogue undo 1" in done.stderr
    assert lines(shop, "catalogue", "journal") == before


def test_gc_reports_what_it_would_remove(shop: Catalogue) -> None:
    call(shop, "catalogue", "undo")
    first = lines(shop, "catalogue", "gc", "--dry-run", "--days", "0")[0]
    assert first.split()[:3] == ["would", "remove", "images/Toy-2.0.sif"]
    found = json.loads(call(shop, "catalogue", "gc", "--days", "0", "--json").stdout)
    assert [one["remove"] for one in found["found"]] == [True] * 3
    assert not (shop.images / "Toy-2.0.sif").exists()


def test_every_change_has_a_schema_for_what_it_prints(shop: Catalogue, tmp_path: Path) -> None:
    for line in (
        "catalogue promote Toy/2.0 --alias newest",
        "catalogue promote Toy/2.0",
        "catalogue deprecate Toy/1.0 --reason old",
        "catalogue restore Toy/1.0",
        "catalogue undo 4",
        "catalogue undo 99",
        "catalogue rebuild",
        f"catalogue init {tmp_path}/new",
        f"catalogue move {tmp_path}/moved",
        "verify Toy/1.0",
        "info Toy/1.0",
        "outdated",
    ):
        # tests/json_schemas.py validates it
        assert json.loads(call(shop, *line.split(), "--json").stdout)["version"] == 1
