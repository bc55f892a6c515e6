"""A catalogue with the modules and scripts that our easyblock writes, and dummy images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpcmod import __version__
from hpcmod.catalogue.change import changing, commit
from hpcmod.catalogue.records.sharing import make_catalogue
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.lifecycle import key_of
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.visible.kept import installed_files, render_kept_files
from hpcmod.core.resources import module_templates, runscript_files
from hpcmod.machine.machine import load_site
from hpcmod.modules.store import make_scripts
from hpcmod.modules.text.modulefile import render_body, render_description
from hpcmod.modules.values.install_record import InstalledImage, InstallRecord, render_install_record
from hpcmod.modules.values.plan import make_plan, with_notices, with_own_packages
from hpcmod.modules.values.spec import InstallSpec
from tests.catalogues import make_record
from tests.plans import FACTS
from tests.programs import make_program
from tests.unit.catalogue.stage import ADA

EASYCONFIG = "easyblock = 'ContainerModule'\nname = 'Toy'\nversion = '1.0'\ndescription = 'A %(name)s'\nhomepage = ''\n"


def make_rendered(directory: Path) -> Catalogue:
    """Create a catalogue with Toy 1.0, as `hpcmod publish` does with the profile `generic`."""
    catalogue = Catalogue(directory, "shop")
    make_catalogue(catalogue)
    record = make_record("Toy/1.0", site="generic", description="A Toy")
    _place(catalogue, record)
    with changing(catalogue, ADA):
        commit(catalogue, {key_of(record): record}, verb="publish", actor=ADA)
    return catalogue


def _place(catalogue: Catalogue, record: CatalogueRecord) -> None:
    root, kept = catalogue.software / "Toy/1.0", catalogue.kept / "Toy/1.0"
    (root / "bin").mkdir(parents=True)
    (root / "runscripts").mkdir()
    (root / "user-software").mkdir()
    kept.mkdir(parents=True)
    (catalogue.images / record.sif).write_bytes(b"image")
    spec = InstallSpec(
        name="Toy",
        module="Toy/1.0",
        variable="TOY",
        root=str(root),
        image=record.sif,
        easyconfig=record.publication.easyconfig,
        found_at=str(catalogue.images / record.sif),
        description="A Toy",
        syntaxes=("Lua",),
        published=True,
    )
    bare = with_own_packages(make_plan(FACTS, load_site("generic", {}), spec), record.sha256)
    plan = with_notices(bare, [str(catalogue.notices)], record.sha256)
    scripts = dict(make_scripts(plan, runscript_files()))
    for name, text in scripts.items():
        (root / name).parent.mkdir(exist_ok=True)
        make_program(root / name, text)
    installed = InstallRecord(
        hpcmod=__version__,
        site="generic",
        image=InstalledImage(sha256=record.sha256),
        files=tuple((name, "") for name in scripts),
        own_packages=plan.described_packages,
    )
    (root / "record.json").write_text(render_install_record(installed))
    templates = module_templates()
    description = render_description(plan, "Lua", templates, conflict="Toy")
    body = render_body(plan, "Lua", templates)
    (kept / "module.lua").write_text(f'{description}setenv("EBROOTTOY", root)\n{body}-- Built with EasyBuild\n')
    (kept / "easyconfig").write_text(EASYCONFIG)
    (kept / "files.json").write_text(render_kept_files(installed_files(catalogue, root)))


def visible(catalogue: Catalogue) -> dict[str, str]:
    """Return the contents of all files that users see, by path relative to the catalogue."""
    places = (catalogue.modules, catalogue.software, catalogue.easyconfigs)
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(catalogue.directory)): path.read_text() for path in files}


def at(catalogue: Catalogue, directory: Path) -> Catalogue:
    """Return the same catalogue in another directory."""
    return replace(catalogue, directory=directory)
