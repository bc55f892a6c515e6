"""Make what users see of a catalogue out of its records: modulefiles, aliases, easyconfigs; each file renamed whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hpcmod.catalogue.index import release_key
from hpcmod.catalogue.sharing import file_mode
from hpcmod.catalogue.store import Catalogue
from hpcmod.fs.tree import write_file
from hpcmod.model.catalogue.lifecycle import choose_default
from hpcmod.model.catalogue.record import CatalogueRecord
from hpcmod.render.deferred import Deferred, defer
from hpcmod.render.modulefile import SYNTAXES
from hpcmod.render.published import MODULERC, render_modulerc, render_published
from hpcmod.resources import module_templates

KEPT_MODULE = {"Lua": "module.lua", "Tcl": "module.tcl"}
"""By syntax, the modulefile in `kept/<Name>/<version>/`, as `eb` wrote it."""

KEPT_EASYCONFIG = "easyconfig"
"""The easyconfig beside it."""

_SUFFIX = {"Lua": ".lua", "Tcl": ""}


def modulefile(catalogue: Catalogue, name: str, version: str, syntax: str) -> Path:
    """Name the modulefile that users see."""
    return catalogue.modules / name / f"{version}{_SUFFIX[syntax]}"


def easyconfig_name(name: str, version: str) -> str:
    """Name the easyconfig of a container, by EasyBuild's rule for the toolchain SYSTEM."""
    return f"{name}-{version}.eb"


def usage_file(catalogue: Catalogue, record: CatalogueRecord) -> Path:
    """Name the file that each load makes a byte longer."""
    return catalogue.usage / f"{record.name}@{record.version}"


def update_visible(catalogue: Catalogue, names: Iterable[str]) -> None:
    """Make what users see of some names agree with the records; only the holder of the catalogue's lock may.

    What can be loaded comes first, then where aliases lead, and what can no longer be loaded goes last: at no time does
    an alias lead to nothing.
    """
    for name in sorted(set(names)):
        records = catalogue.named(name)
        for record in records:
            if record.state != "retired":
                _show(catalogue, record)
        for syntax in SYNTAXES:
            _write_modulerc(catalogue, name, records, syntax)
        for record in records:
            if record.state == "retired":
                _show(catalogue, record)
        _remove_unrecorded(catalogue, name, records)


def _show(catalogue: Catalogue, record: CatalogueRecord) -> None:
    if catalogue.counts_use:
        _make_usage_file(usage_file(catalogue, record))
    files = dict(visible_files(catalogue, record))
    for path, text in files.items():
        _write(catalogue, path, text)
    modules = [modulefile(catalogue, record.name, record.version, syntax) for syntax in SYNTAXES]
    for path in modules if set(modules) & set(files) else ():
        if path not in files:  # it was published in the other syntax before
            path.unlink(missing_ok=True)


def visible_files(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[tuple[Path, str]]:
    """Give what users need of a container, from what `eb` wrote: path and text, in the order in which to write them."""
    kept = catalogue.kept / record.name / record.version
    easyconfig = _read(kept / KEPT_EASYCONFIG)
    if easyconfig is not None and record.easyconfig:
        yield catalogue.easyconfigs_of(record.name) / record.easyconfig, easyconfig
    usage = str(usage_file(catalogue, record)) if catalogue.counts_use else ""
    for syntax in SYNTAXES:
        text = _read(kept / KEPT_MODULE[syntax])
        if text is not None and syntax == "Lua":
            deferred = _defer(catalogue, record.name, record.version, text)
            yield from ((Path(file), code) for file, code in deferred.files)  # before the modulefile that runs them
            text = deferred.visible
        if text is not None:
            path = modulefile(catalogue, record.name, record.version, syntax)
            yield path, render_published(text, syntax, module_templates(), record=record, usage=usage)


def _defer(catalogue: Catalogue, name: str, version: str, text: str) -> Deferred:
    """Take what not every `avail` needs out of the modulefile in Lua, into a directory that no module tool reads."""
    return defer(text, module=f"{name}/{version}", directory=str(catalogue.code))


def remove_code(catalogue: Catalogue, name: str, version: str) -> None:
    """Remove the code of a module that nobody has seen; that of others stays for who is just loading them, until gc."""
    text = _read(catalogue.kept / name / version / KEPT_MODULE["Lua"]) or ""
    for path, _ in _defer(catalogue, name, version, text).files:
        Path(path).unlink(missing_ok=True)


def _write_modulerc(catalogue: Catalogue, name: str, records: Sequence[CatalogueRecord], syntax: str) -> None:
    path = catalogue.modules / name / MODULERC[syntax]
    mine = [one for one in records if (catalogue.kept / name / one.version / KEPT_MODULE[syntax]).is_file()]
    if mine:
        default = choose_default(mine, order=release_key)
        _write(catalogue, path, render_modulerc(mine, syntax, module_templates(), default=default))
    else:
        path.unlink(missing_ok=True)


def _remove_unrecorded(catalogue: Catalogue, name: str, records: Sequence[CatalogueRecord]) -> None:
    """Take away what users see of containers that have no record any more; what others put there is not ours."""
    known = {one.version for one in records}
    with contextlib.suppress(FileNotFoundError):
        for kept in (catalogue.kept / name).iterdir():
            if kept.name not in known:
                for syntax in SYNTAXES:
                    modulefile(catalogue, name, kept.name, syntax).unlink(missing_ok=True)
                (catalogue.easyconfigs_of(name) / easyconfig_name(name, kept.name)).unlink(missing_ok=True)


def _make_usage_file(path: Path) -> None:
    """Make a file that everybody may append to."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        path.chmod(0o666)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _write(catalogue: Catalogue, path: Path, text: str) -> None:
    """Put a file in place, unless that very text is there."""
    if _read(path) != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text, mode=file_mode(catalogue.directory))
