"""Generate what users see of a catalogue from its records: modulefiles, aliases, easyconfigs, each atomically."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hpcmod.catalogue.records.sharing import file_mode
from hpcmod.catalogue.records.store import Catalogue, software_of
from hpcmod.catalogue.text.published import render_modulerc, render_published
from hpcmod.catalogue.values.lifecycle import choose_default
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.visible.kept import (
    KEPT_MODULE,
    installed_files,
    kept_directory,
    read_easyconfig,
    read_files,
    read_kept_text,
    read_module,
)
from hpcmod.core.resources import module_templates
from hpcmod.modules.values.install_record import MODULERC, RECORD, SUFFIXES, SYNTAXES, is_started, link_of


def modulefile(catalogue: Catalogue, name: str, version: str, syntax: str) -> Path:
    """Return the path of the modulefile that users see."""
    return catalogue.modules / name / f"{version}{SUFFIXES[syntax]}"


def easyconfig_name(name: str, version: str) -> str:
    """Return the name of the easyconfig of a container, following EasyBuild's rule for the toolchain SYSTEM."""
    return f"{name}-{version}.eb"


def update_visible(catalogue: Catalogue, names: Iterable[str], *, anew: bool = False) -> None:
    """Update what users see of some names to match the records; the caller must hold the catalogue's lock.

    Scripts are compared one by one only with `anew`, or if the installation's record differs.

    Modules that can be loaded are written first, then the aliases, and modules that can no longer be loaded are removed
    last: at no time does an alias point to a missing module.
    """
    for name in sorted(set(names)):
        records = catalogue.named(name)
        for record in records:
            if record.state != "retired":
                _show(catalogue, record, anew=anew)
        for path, text in alias_files(catalogue, name, records):
            _write(catalogue, path, text) if text else catalogue.tree.remove(path)
        for record in records:
            if record.state == "retired":
                _show(catalogue, record, anew=anew)
        _remove_unrecorded(catalogue, name, records)


def _show(catalogue: Catalogue, record: CatalogueRecord, *, anew: bool) -> None:
    _write_scripts(catalogue, record, anew=anew)
    files = dict(visible_files(catalogue, record))
    for path, text in files.items():
        _write(catalogue, path, text)
    modules = [modulefile(catalogue, record.name, record.version, syntax) for syntax in SYNTAXES]
    for path in modules if set(modules) & set(files) else ():
        if path not in files:  # it was published in the other syntax before
            catalogue.tree.remove(path)


def visible_files(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[tuple[Path, str]]:
    """Yield what users need of a container besides its scripts: path and text, in the order in which to write them."""
    easyconfig = read_easyconfig(catalogue, record)
    if easyconfig is not None and record.publication.easyconfig:
        yield catalogue.easyconfigs_of(record.name) / record.publication.easyconfig, easyconfig
    # each load creates a file there; random digits follow
    usage = str(catalogue.loads / f"{record.name}@{record.version}@") if catalogue.counts_use else ""
    for syntax in SYNTAXES:
        text = read_module(catalogue, record, syntax)
        if text is not None:
            path = modulefile(catalogue, record.name, record.version, syntax)
            image = str(catalogue.images / record.sif)
            yield path, render_published(text, syntax, module_templates(), record=record, usage=usage, image=image)


def script_files(catalogue: Catalogue, record: CatalogueRecord) -> dict[Path, str]:
    """Return the scripts of an installation, its record last; empty if the installation was removed or is unknown."""
    root = software_of(catalogue, record)
    files = read_files(catalogue, record) if root.is_dir() else {}
    return {root / name: files[name] for name in sorted(files, key=lambda name: (name == RECORD, name))}


def _write_scripts(catalogue: Catalogue, record: CatalogueRecord, *, anew: bool) -> None:
    root, files = software_of(catalogue, record), script_files(catalogue, record)
    if not files or (not anew and read_kept_text(catalogue, root / RECORD) == files.get(root / RECORD)):
        return
    before = {root / name for name in installed_files(catalogue, root)}
    for path, text in files.items():
        name = str(path.relative_to(root))
        if link_of(name):
            catalogue.tree.make_directory(path.parent)
            catalogue.tree.symlink(path, link_of(name))
        else:
            _write(catalogue, path, text, executable=is_started(name))
    for path in before - set(files):
        catalogue.tree.remove(path)


def alias_files(catalogue: Catalogue, name: str, records: Sequence[CatalogueRecord]) -> Iterator[tuple[Path, str]]:
    """Yield the files with the aliases and the default of a name: path and text, empty if it is to be removed."""
    for syntax in SYNTAXES:
        mine = [record for record in records if any(path.is_file() for path in _modules_of(catalogue, record, syntax))]
        default = choose_default(mine) if mine else None
        text = render_modulerc(mine, syntax, module_templates(), default=default) if mine else ""
        yield catalogue.modules / name / MODULERC[syntax], text


def _modules_of(catalogue: Catalogue, record: CatalogueRecord, syntax: str) -> tuple[Path, Path]:
    """Return the modulefile that is kept, and that of users, which still loads if the kept one is lost."""
    kept = kept_directory(catalogue, record) / KEPT_MODULE[syntax]
    return kept, modulefile(catalogue, record.name, record.version, syntax)


def is_executable(path: Path) -> bool:
    """Return whether a file can be executed by all who may read it."""
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        return mode & 0o111 == (mode & 0o444) >> 2
    return False


def _remove_unrecorded(catalogue: Catalogue, name: str, records: Sequence[CatalogueRecord]) -> None:
    """Remove what users see of containers without a record; files of others are left alone."""
    known = {record.version for record in records}
    with contextlib.suppress(FileNotFoundError):
        for version in {kept.name.partition("@")[0] for kept in (catalogue.kept / name).iterdir()} - known:
            for syntax in SYNTAXES:
                catalogue.tree.remove(modulefile(catalogue, name, version, syntax))
            catalogue.tree.remove(catalogue.easyconfigs_of(name) / easyconfig_name(name, version))


def _write(catalogue: Catalogue, path: Path, text: str, *, executable: bool = False) -> None:
    """Write a file unless it already has that content."""
    if read_kept_text(catalogue, path) != text or (executable and not is_executable(path)):
        catalogue.tree.make_directory(path.parent)
        mode = file_mode(catalogue.directory)
        catalogue.tree.write(path, text, mode=mode | 0o111 if executable else mode)
