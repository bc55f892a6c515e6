"""The files that a catalogue keeps of each container: modulefile, easyconfig and scripts, as rendered.

Each rendering has a directory: `kept/<Name>/<version>/` for the one that publishing made, `kept/<Name>/<version>@<n>/`
for that of change `n`; the record says which one users see. The files contain the catalogue's path at that time.
Reading replaces it with the current path, so that a catalogue can be copied, moved, or mounted elsewhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from hpcmod.catalogue.records.sharing import check_readable_by_readers
from hpcmod.catalogue.records.store import Catalogue, software_of
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.values.relocation import relocate
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.strict_json import JsonObject, load_json
from hpcmod.modules.values.install_record import (
    RECORD,
    SYNTAXES,
    find_root,
    link_of,
    parse_install_record,
    render_install_record,
)

KEPT_MODULE = {"Lua": "module.lua", "Tcl": "module.tcl"}
"""File name of a rendering's modulefile, by syntax."""

KEPT_EASYCONFIG = "easyconfig"
"""File name of a rendering's easyconfig."""

KEPT_FILES = "files.json"
"""File name of a rendering's scripts and installation record: a JSON object of texts by path below the installation."""

_LIMIT = 64 << 20  # bytes of all scripts of a container


def kept_directory(catalogue: Catalogue, record: CatalogueRecord) -> Path:
    """Return the directory of the rendering that users see."""
    return catalogue.kept / record.name / rendering_name(record.version, record.rendering)


def rendering_name(version: str, rendering: str) -> str:
    """Return the name of the directory of a rendering."""
    return f"{version}@{rendering}" if rendering else version  # no version has an @


def read_kept_text(catalogue: Catalogue, path: Path) -> str | None:
    """Read a text file of the catalogue without following links; None if it does not exist.

    The text is copied to files that every reader of the catalogue can read, so all of them must have access to it.

    Raises BadInputError if it is not a regular file in UTF-8, or some readers of the catalogue cannot read it.
    """
    try:
        return catalogue.read_file(path, _LIMIT, check=check_readable_by_readers(catalogue, path)).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as err:
        raise BadInputError(f"{path}: not UTF-8 text", f"Check who created it: ls -l {path}") from err


def read_module(catalogue: Catalogue, record: CatalogueRecord, syntax: str) -> str | None:
    """Read the modulefile of a container, with the catalogue's current path; None if it has none in this syntax.

    Raises BadInputError if the catalogue was moved to or from a path that cannot be replaced in it.
    """
    text = read_kept_text(catalogue, kept_directory(catalogue, record) / KEPT_MODULE[syntax])
    return None if text is None else relocate(text, home_of(catalogue, record), str(catalogue.directory))


def read_easyconfig(catalogue: Catalogue, record: CatalogueRecord) -> str | None:
    """Read the easyconfig of a container; None if missing."""
    return read_kept_text(catalogue, kept_directory(catalogue, record) / KEPT_EASYCONFIG)


def easyconfig_copies(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[str]:
    """Yield the text of each easyconfig of a container that can be read: kept, that of users, of the installation."""
    places = (catalogue.easyconfigs_of(record.name), software_of(catalogue, record) / "easybuild")
    copies = (place / (record.publication.easyconfig or KEPT_EASYCONFIG) for place in places)
    for path in (kept_directory(catalogue, record) / KEPT_EASYCONFIG, *copies):
        with suppress(BadInputError):
            yield read_kept_text(catalogue, path) or ""


def read_files(catalogue: Catalogue, record: CatalogueRecord) -> dict[str, str]:
    """Read the scripts of a container with the catalogue's current path: text by path below the installation.

    Empty if the catalogue has no copy of them.
    """
    path = kept_directory(catalogue, record) / KEPT_FILES
    text = read_kept_text(catalogue, path)
    if text is None:
        return {}
    files = JsonObject(load_json(text.encode(), str(path), limit=_LIMIT), str(path)).table("files")
    home = home_of(catalogue, record)
    return {name: relocate(content, home, str(catalogue.directory)) for name, content in files if _is_inside(name)}


def render_kept_files(files: Mapping[str, str]) -> str:
    """Render the file that `read_files` reads."""
    return json.dumps({"files": dict(files)}, indent=1, sort_keys=True) + "\n"


def installed_files(catalogue: Catalogue, root: Path) -> dict[str, str]:
    """Read the scripts and the record of an installation in the catalogue: text by path below its directory."""
    text = read_kept_text(catalogue, root / RECORD)
    if text is None:
        return {}
    record = parse_install_record(text.encode(), str(root / RECORD)).without_checksums()
    texts = {name: read_kept_text(catalogue, _real(root, name)) for name, _ in record.files if _is_inside(name)}
    present = {name: text for name, text in texts.items() if text is not None}
    return {**present, RECORD: render_install_record(record)}


def _real(root: Path, name: str) -> Path:
    """Return the path of the file behind a link of an installation."""
    target = link_of(name)
    return root / target.removeprefix("../") if target else root / name


def home_of(catalogue: Catalogue, record: CatalogueRecord) -> str:
    """Return the path of the catalogue when a container was rendered, or its current path if they are the same.

    If the old path still leads to the same directory (by a link or a second mount), nothing needs to be replaced.
    """
    directory = str(catalogue.directory)
    root = next(_roots(catalogue, record), None)
    below = Path(catalogue.software.name, record.name, record.version)
    if root is None or root.parts[-3:] != below.parts:
        return directory
    home = root.parents[2]
    return directory if home.exists() and home.samefile(directory) else str(home)


def _roots(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[Path]:
    for syntax in SYNTAXES:
        text = read_kept_text(catalogue, kept_directory(catalogue, record) / KEPT_MODULE[syntax])
        root = os.fsdecode(find_root(text.encode())) if text else ""
        if root:
            yield Path(root)


def _is_inside(name: str) -> bool:
    """Return whether a name is a relative path that an installation writes: at most two directories deep."""
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts and len(path.parts) in (1, 2, 3)
