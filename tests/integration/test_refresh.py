"""Long-term maintenance of a catalogue with the real tools: a new profile, a copy elsewhere, an undo."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.conftest import make_images
from tests.integration.publishing import Site, make_site
from tests.stack import ModuleTool, Stack


@pytest.fixture(scope="module")
def image(tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tiny_sif, tmp_path_factory.mktemp("images"), "one", megabytes=1)[0]


@pytest.fixture(scope="module")
def published(stack: Stack, image: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site where Toy 1.0 was published with a profile that adds no bind paths."""
    top = tmp_path_factory.mktemp("refreshed")
    site = make_site(ModuleTool(stack, top, "envmodules"), top)
    (top / "site.toml").write_text('name = "here"\nextends = "generic"\n')
    site = replace(site, variables={"HPCMOD_SITE": str(top / "site.toml")})
    site.published(image, "1.0", "--alias", "stable", "--check", "python --version")
    return site


def binds(site: Site) -> str:
    return site.user("module load Toy && echo $SINGULARITY_BINDPATH").stdout


def visible(site: Site) -> dict[str, bytes]:
    """Return the contents of every file that users see, by path relative to the catalogue."""
    places = (site.modules, site.catalogue / "software", site.catalogue / "easyconfigs")
    files = [path for place in places for path in place.rglob("*") if path.is_file() and path.suffix != ".log"]
    return {str(path.relative_to(site.catalogue)): path.read_bytes() for path in files}


def change_profile(site: Site, text: str) -> None:
    (site.top / "site.toml").write_text(f'name = "here"\nextends = "generic"\n{text}')


def test_a_refresh_with_the_same_profile_changes_nothing(published: Site) -> None:
    before = published.files()
    shown = published.does("catalogue", "refresh", "--dry-run")
    assert (shown.stdout, "up to date" in shown.stderr) == ("", True)
    published.does("catalogue", "refresh")
    assert published.files() == before


def test_a_new_profile_reaches_modules_and_scripts_and_undo_takes_it_back(published: Site, tmp_path: Path) -> None:
    before, image = visible(published), (published.catalogue / "images/Toy-1.0.sif").stat()
    change_profile(published, f'[binds]\noptional = ["{tmp_path}"]\n')
    shown = published.does("catalogue", "refresh", "--dry-run")
    assert "Toy/1.0: module" in shown.stdout
    assert str(tmp_path) in shown.stdout
    assert visible(published) == before

    done = json.loads(published.does("catalogue", "refresh", "Toy", "-m", "scratch", "--json").stdout)
    assert str(tmp_path) in binds(published)
    assert str(tmp_path) in (published.catalogue / "software/Toy/1.0/runscripts/lib/settings.bash").read_text()
    assert published.journal()[-1]["verb"] == "refresh"
    assert published.does("verify", "Toy/1.0")
    assert (published.catalogue / "images/Toy-1.0.sif").stat().st_ino == image.st_ino
    assert published.loaded("Toy/1.0") == "one"

    published.does("catalogue", "undo", str(done["change"]))
    assert visible(published) == before
    assert published.does("verify", "Toy/1.0")
    published.does("catalogue", "undo", str(done["change"] + 1))
    assert str(tmp_path) in binds(published)
    published.does("catalogue", "undo", str(done["change"] + 2))
    change_profile(published, "")


def test_a_copy_elsewhere_is_noticed_and_works_once_it_is_rebuilt(published: Site, tmp_path: Path) -> None:
    moved = replace(published, top=tmp_path / "elsewhere")
    shutil.copytree(published.catalogue, moved.catalogue, symlinks=True)
    away = published.catalogue.rename(published.catalogue.with_name("gone"))
    try:
        assert moved.hpcmod("verify", "Toy/1.0").returncode == 1
        moved.does("catalogue", "rebuild")
        moved.does("verify", "Toy/1.0", "--checks")
        assert moved.loaded("Toy") == "one"
        assert moved.does("exec", "Toy/1.0", "cat", "/generation").stdout.strip().endswith("one")
        stale = [name for name, text in visible(moved).items() if str(published.catalogue).encode() in text]
        assert [name for name in stale if "/easybuild/" not in name] == []
        before = visible(moved)
        moved.does("catalogue", "rebuild")
        assert visible(moved) == before
    finally:
        away.rename(published.catalogue)


def test_containers_published_with_another_profile_change_to_one_that_is_named(published: Site, tmp_path: Path) -> None:
    ours = tmp_path / "ours.toml"
    ours.write_text('name = "ours"\nextends = "generic"\n')
    site = replace(published, variables={"HPCMOD_SITE": str(ours)})
    assert "For other machines" in site.does("ls").stderr
    assert "catalogue refresh NAME --site FILE (of ours)" in site.hpcmod("catalogue", "refresh").stderr
    assert site.hpcmod("catalogue", "refresh", "--site", str(ours)).returncode == 2
    assert "profile: here -> ours" in site.does("catalogue", "refresh", "Toy", "--site", str(ours), "--dry-run").stdout
    site.does("catalogue", "refresh", "Toy", "--site", str(ours))
    assert "Toy/1.0" in site.does("ls").stdout
    site.does("verify", "Toy/1.0", "--checks")
    site.does("catalogue", "undo")
    assert site.does("ls").stdout == ""
