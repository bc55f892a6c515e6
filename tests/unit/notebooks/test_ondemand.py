from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod.core.cli.main import main
from hpcmod.core.values.facts import Package
from tests.catalogues import make_catalogue, make_record
from tests.plans import HOSTILE

LAB = (Package("jupyterlab", "4.2"),)


def call(catalogue: Path, *words: str | Path, site: str = "lumi") -> Result:
    arguments = ["catalogue", "docs", "--catalogue", str(catalogue), *map(str, words)]
    return CliRunner().invoke(main, arguments, env={"HPCMOD_SITE": site})


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    records = (
        make_record("Lab/1.9", packages=LAB, state="deprecated"),
        make_record("Lab/1.10", packages=LAB),
        make_record("Lab/0.9", packages=LAB, state="retired"),
        make_record("PyTorch/2.7.1"),
    )
    return make_catalogue(tmp_path / "shop", *records).directory


def test_the_app_offers_the_containers_that_load_and_have_jupyterlab_newest_first(
    catalogue: Path, tmp_path: Path
) -> None:
    done = call(catalogue, "--ondemand", "lumi", "--json", tmp_path / "app")
    assert json.loads(done.stdout)["containers"] == ["Lab/1.10", "Lab/1.9"]
    form = json.loads((tmp_path / "app/form.yml").read_text())
    software = catalogue / "software"
    assert (form["cluster"], form["attributes"]["container"]["options"]) == (
        "lumi",
        [
            ["Lab/1.10", f"{software}/Lab/1.10/in-environment"],
            ["Lab/1.9 (deprecated)", f"{software}/Lab/1.9/in-environment"],
        ],
    )
    programs = [path.name for path in (tmp_path / "app").rglob("*") if path.is_file() and path.stat().st_mode & 0o111]
    assert programs == ["script.sh.erb"]
    again = call(catalogue, "--ondemand", "lumi", tmp_path / "app")
    assert (again.exit_code, again.stdout) == (0, f"{tmp_path}/app/form.yml\n")


def test_text_of_others_is_in_no_file_that_ruby_runs(catalogue: Path, tmp_path: Path) -> None:
    call(catalogue, "--ondemand", "lumi", tmp_path / "tame")
    words = [*HOSTILE.values(), "<%= `touch pwned` %>", "- a: *b", "&a !ruby/object:Gem::Installer x"]
    profile = tmp_path / "site.toml"
    for word in words:
        table = f"name = 'x'\ndescription = {json.dumps(word)}\n[nodes.n]\ncores = 4\n"
        profile.write_text(f"{table}[job]\ncommand = [{json.dumps('true; ' + word)}]\n")
        done = call(catalogue, "--ondemand", "lumi", "--title", word, tmp_path / "app", site=str(profile))
        if done.exit_code != 0:
            assert done.exit_code == 2 and str(profile) in done.stderr, done.stderr  # the profile is refused
            continue
        for path in (tmp_path / "tame").rglob("*.erb"):
            other = tmp_path / "app" / path.relative_to(tmp_path / "tame")
            assert other.read_bytes() == path.read_bytes()


def test_what_cannot_be_an_app_is_refused(tmp_path: Path, catalogue: Path) -> None:
    empty = make_catalogue(tmp_path / "empty", make_record("PyTorch/2.7.1")).directory
    lacking = call(empty, "--ondemand", "lumi", tmp_path / "app")
    assert (lacking.exit_code, "no container of the catalogue has jupyterlab" in lacking.stderr) == (3, True)
    cluster = call(catalogue, "--ondemand", "../lumi", tmp_path / "app")
    assert (cluster.exit_code, "'../lumi' is not the name of a cluster" in cluster.stderr) == (2, True)
    assert not (tmp_path / "app").exists()
