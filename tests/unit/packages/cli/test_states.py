from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from hpcmod.catalogue.cli.containers import find_ready, look_around
from hpcmod.modules.own_packages import find_packages
from hpcmod.packages.cli.show import _source
from hpcmod.packages.values.state import Locked
from tests.calls import data, hpcmod, must
from tests.catalogues import make_catalogue, make_record
from tests.corpus import make_squashfs
from tests.package_states import TAG


def active(home: Path) -> str:
    link = home / f".local/share/hpcmod/packages/PyTorch/default/active-{TAG}.squashfs"
    return str(link.readlink())


def test_packages_lists_your_packages_and_their_dependencies(home: Path) -> None:
    assert must("packages", "PyTorch").splitlines() == [
        "einops  0.8.1  yours  2026-01-01  100 B  example.org",
        "needy   1.0    yours  2026-01-01  50 B   /wheels",
    ]
    assert [one["number"] for one in data("packages", "PyTorch", "--history")["history"]] == [1, 2, 3]
    found = data("packages", "PyTorch", "--lock")
    assert (found["state"]["number"], found["sets"]) == (2, ["default"])
    assert 'name = "needy", version = "1.0"' in found["lock"]
    assert must("packages", "PyTorch", "--lock") == found["lock"]
    assert "2 *" in must("packages", "PyTorch", "--history")


def test_the_source_of_code_is_its_directory_and_that_of_a_file_where_it_is() -> None:
    """A wheel of a directory is in one of the states above."""
    assert _source(Locked("mine", "1.0", url="file:///home/alice/mycode")) == "/home/alice/mycode"


def test_each_state_has_one_line_on_a_terminal_of_80_columns(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcmod.core.cli.output.terminal_width", lambda: 80)
    record = next(home.rglob(f"states/2-{TAG}.json"))
    state = json.loads(record.read_text())
    state["module"] = "PyTorch/2.7.1-rocm-6.2.4-singularity"
    state["action"] = "add einops needy and more packages than there is place for"
    record.write_text(json.dumps(state))
    header, *lines = must("packages", "PyTorch", "--history").splitlines()
    assert [line.split()[0] for line in (header, *lines)] == ["state", "1", "2", "3"]
    assert lines[1].startswith("2 *    2026-01-01  2.7.1-rocm-6.2.4-singularity  2         4.1 kB  add einops ")
    assert len(lines[1]) == 80 and lines[1].endswith("..")


def test_packages_for_a_retired_container_can_be_listed(home: Path, tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path / "catalogue", make_record("PyTorch/2.7.1", state="retired"))
    modules = catalogue.modules / "PyTorch"
    modules.mkdir(parents=True, exist_ok=True)
    (tmp_path / "modules/all/PyTorch/2.7.1.lua").rename(modules / "2.7.1.lua")
    site = {"HPCMOD_CATALOGUE": str(catalogue.directory), "MODULEPATH": str(catalogue.modules)}
    done = hpcmod("packages", "PyTorch/2.7.1", **site)
    assert done.exit_code == 0 and done.stdout.startswith("einops  0.8.1"), done.output
    assert "PyTorch/2.7.1 is retired" in done.stderr
    assert "is retired" in hpcmod("add", "PyTorch/2.7.1", "x", "--dry-run", **site).stderr


def test_differences_are_shown(home: Path) -> None:
    assert must("packages", "PyTorch", "--diff", "1", "2") == "needy: added 1.0\n"
    assert data("packages", "PyTorch", "--diff", "2", "1")["changes"][0]["verdict"] == "removed"


def test_undo_needs_no_container(home: Path) -> None:
    assert must("undo", "PyTorch", "--dry-run") == "needy: removed 1.0\n"
    assert active(home) == f"states/2-{TAG}.squashfs"
    assert must("undo", "PyTorch") == "needy: removed 1.0\n"
    assert active(home) == f"states/1-{TAG}.squashfs"
    assert data("undo", "PyTorch")["state"]["packages"] == []
    assert hpcmod("undo", "PyTorch").exit_code == 3


def test_undo_without_a_container_says_which_commands_are_meant(home: Path) -> None:
    for words, number in (((), ""), (("17",), " 17")):
        done = hpcmod("undo", *words)
        said = " ".join(done.stderr.split())
        assert (done.exit_code, "undo the last change of your packages: hpcmod undo PyTorch" in said) == (2, True), said
        assert f"To undo a change of the site's catalogue: hpcmod catalogue undo{number}" in said
    (home / ".local").rename(home / "away")
    assert "hpcmod undo NAME" in hpcmod("undo").stderr


def test_any_state_for_this_image_can_be_used(home: Path) -> None:
    assert "state 1 of `default` for PyTorch/2.7.1 is active" in hpcmod("packages", "PyTorch", "--use", "1").stderr
    assert active(home) == f"states/1-{TAG}.squashfs"
    assert must("undo", "PyTorch", "--dry-run") == "needy: added 1.0\n"
    assert hpcmod("packages", "PyTorch", "--use", "3").exit_code == 2
    assert hpcmod("packages", "PyTorch", "--use", "9").exit_code == 3


def test_old_states_are_removed(home: Path) -> None:
    assert data("packages", "PyTorch", "--gc", "--keep", "0", "--dry-run")["removed"] == []
    must("packages", "PyTorch", "--use", "1")
    assert must("packages", "PyTorch", "--gc", "--keep", "0") == "2  4.1 kB\n"
    assert [one["number"] for one in data("packages", "PyTorch", "--history")["history"]] == [1, 3]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("packages", "PyTorch", "--set", "other"), 3, "your sets: default"),
        (("packages", "PyTorch", "--set", "../up"), 2, "not a valid name"),
        (("packages", "PyTorch", "--lock", "--gc"), 2, "only one of"),
        (("packages", "Nothing"), 3, "Nothing"),
        (("drop", "PyTorch", "torch"), 2, "not among your packages"),
        (("add", "PyTorch"), 2, "give packages"),
        (("add", "PyTorch", "-r", "missing.txt"), 3, "no such file"),
        (("add", "PyTorch", "--lock", "x", "einops"), 2, "give no others"),
        (("add", "PyTorch", "einops"), 7, "no container runtime"),
        (("rebase", "PyTorch"), 7, "no container runtime"),
        (("undo", "PyTorch", "--set", "other"), 3, "your sets: default"),
        (("edit", "PyTorch", "--discard"), 3, "are being edited"),
        (("edit", "PyTorch"), 7, "no container runtime"),
        (("edit", "PyTorch", "--discard", "--", "pip"), 2, "a command or --discard"),
        (("packages", "PyTorch/2.7.1", "--use", "9"), 3, "hpcmod packages PyTorch/2.7.1 --history"),
        (("edit", "PyTorch/2.7.1", "--discard"), 3, "hpcmod packages PyTorch/2.7.1"),
        (("drop", "PyTorch/2.7.1", "torch"), 2, "hpcmod packages PyTorch/2.7.1"),
    ],
)
def test_faults_say_what_to_do(home: Path, words: tuple[str, ...], code: int, said: str) -> None:
    before = sorted(home.rglob("*"))
    result = hpcmod(*words)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert sorted(home.rglob("*")) == before


def test_verify_covers_the_packages(home: Path) -> None:
    states = home / ".local/share/hpcmod/packages/PyTorch/default/states"
    record = states / f"2-{TAG}.json"
    values = json.loads(record.read_text())
    values["sha256"] = sha256((states / f"2-{TAG}.squashfs").read_bytes()).hexdigest()
    record.write_text(json.dumps(values))
    assert levels("verify", "PyTorch") == ["unknown", "ok"]
    (states / f"2-{TAG}.squashfs").write_bytes(b"hsqs")
    assert levels("verify", "PyTorch") == ["unknown", "fail"]
    assert hpcmod("verify", "PyTorch").exit_code == 4


def levels(*words: str) -> list[str]:
    findings = json.loads(hpcmod(*words, "--json").stdout)["findings"]
    return [one["level"] for one in findings if one["rule"] == "packages"]


def test_a_set_that_a_failed_add_left_empty_has_no_packages(home: Path) -> None:
    (home / ".local/share/hpcmod/packages/PyTorch/empty/states").mkdir(parents=True)
    result = hpcmod("packages", "PyTorch", "--set", "empty")
    assert (result.exit_code, "you have no packages `empty` for PyTorch/2.7.1" in result.stderr) == (3, True)


@pytest.mark.slow
def test_undo_imports_nothing_that_installs_packages_or_changes_catalogues() -> None:
    program = "import sys, hpcmod.catalogue.cli.lifecycle, hpcmod.packages.cli.states; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"jinja2", "requests", "hpcmod.catalogue.change", "hpcmod.catalogue.admin.lifecycle"}
    heavy |= {"hpcmod.packages.building", "hpcmod.modules.user_layer", "hpcmod.images.squashfs.reader"}
    assert heavy & set(done.stdout.split()) == set()


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ("", f"2-{TAG}.squashfs"),
        ("default@1", f"1-{TAG}.squashfs"),
        ("default@3", "user-software"),
        ("none", "user-software"),
        ("other", "user-software"),
    ],
)
def test_bake_takes_the_packages_that_the_module_uses(
    home: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, found: str
) -> None:
    monkeypatch.setenv("HPCMOD_PACKAGES", chosen)
    installed = find_ready(look_around(None), "PyTorch")
    assert find_packages(installed.root, installed.record.own_packages, os.environ).resolve().name == found


def test_info_and_search_know_the_packages_that_the_user_added(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = home / f".local/share/hpcmod/packages/PyTorch/default/states/2-{TAG}.squashfs"
    info = "venv/pytorch/lib/python3.12/site-packages/einops-0.8.1.dist-info/METADATA"
    monkeypatch.setenv("PATH", os.defpath)
    make_squashfs(packed, {info: "Metadata-Version: 2.1\nName: einops\nVersion: 0.8.1\n"})
    assert "your package: einops 0.8.1" in hpcmod("info", "PyTorch").stdout
    assert "einops 0.8.1" in hpcmod("search", "einops").stdout
    monkeypatch.setenv("HPCMOD_PACKAGES", "none")
    assert hpcmod("search", "einops").exit_code == 3
