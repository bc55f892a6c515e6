"""What a catalogue keeps of each container: modulefile, easyconfig and scripts, as they were rendered.

Each rendering has a directory: `kept/<Name>/<version>/` has the one that publishing made, `kept/<Name>/<version>@<n>/`
that of change `n`; the record says which of them users see. The texts hold the paths of the catalogue as it was then.
They are read with those of the directory where it is now, so a catalogue may be copied, moved, or mounted elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from hpcmod.catalogue.records.sharing import check_readable_by_readers
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.errors import BadInputError
from hpcmod.install.installed import RECORD, find_root, parse_install_record
from hpcmod.model.catalogue.record import CatalogueRecord
from hpcmod.model.catalogue.relocation import relocate
from hpcmod.model.strict_json import JsonObject, load_json
from hpcmod.render.modules.modulefile import SYNTAXES

KEPT_MODULE = {"Lua": "module.lua", "Tcl": "module.tcl"}
"""By syntax, the modulefile of a rendering."""

KEPT_EASYCONFIG = "easyconfig"
"""The easyconfig beside it."""

KEPT_FILES = "files.json"
"""The scripts beside it, and the record of the installation: text by path below the installation's directory."""

_LIMIT = 64 << 20  # bytes of all scripts of a container


def kept_directory(catalogue: Catalogue, record: CatalogueRecord) -> Path:
    """Return the directory of the rendering that users see."""
    return catalogue.kept / record.name / rendering_name(record.version, record.rendering)


def rendering_name(version: str, rendering: str) -> str:
    """Return the name of the directory of a rendering."""
    return f"{version}@{rendering}" if rendering else version  # no version has an @


def read_kept_text(catalogue: Catalogue, path: Path) -> str | None:
    """Read a text file of the catalogue, no link followed; None if there is no such file.

    What is read here is copied to where all who may read the catalogue can read it, so they must be able to already.

    Raises
    ------
    BadInputError
        If it is not a regular file of the catalogue in UTF-8, or closed to some who may read the catalogue.
    """
    try:
        return catalogue.read_file(path, _LIMIT, check=check_readable_by_readers(catalogue, path)).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as err:
        raise BadInputError(f"{path}: not UTF-8 text", f"See who put it there: ls -l {path}") from err


def read_module(catalogue: Catalogue, record: CatalogueRecord, syntax: str) -> str | None:
    """Read the modulefile of a container, with the paths of the catalogue as it is now; None in the other syntax.

    Raises
    ------
    BadInputError
        If the catalogue was moved to or from a path that cannot be replaced in it.
    """
    text = read_kept_text(catalogue, kept_directory(catalogue, record) / KEPT_MODULE[syntax])
    return None if text is None else relocate(text, home_of(catalogue, record), str(catalogue.directory))


def read_easyconfig(catalogue: Catalogue, record: CatalogueRecord) -> str | None:
    """Read the easyconfig of a container."""
    return read_kept_text(catalogue, kept_directory(catalogue, record) / KEPT_EASYCONFIG)


def read_files(catalogue: Catalogue, record: CatalogueRecord) -> dict[str, str]:
    """Read the scripts of a container as `read_module` does: text by path below its installation.

    Empty where an older hpcmod published it: then the files themselves are all there is.
    """
    path = kept_directory(catalogue, record) / KEPT_FILES
    text = read_kept_text(catalogue, path)
    if text is None:
        return {}
    found = JsonObject(load_json(text.encode(), str(path), limit=_LIMIT), str(path)).table("files")
    home = home_of(catalogue, record)
    return {name: relocate(one, home, str(catalogue.directory)) for name, one in found if _is_inside(name)}


def render_kept_files(files: Mapping[str, str]) -> str:
    """Render the file that `read_files` reads."""
    return json.dumps({"files": dict(files)}, indent=1, sort_keys=True) + "\n"


def installed_files(catalogue: Catalogue, root: Path) -> dict[str, str]:
    """Read the scripts and the record of an installation in the catalogue: text by path below its directory."""
    listed = parse_install_record(read_kept_text(catalogue, root / RECORD) or "").get("files", [])
    names = [name for name in listed if isinstance(name, str) and _is_inside(name)]
    texts = {name: read_kept_text(catalogue, root / name) for name in [*names, RECORD]}
    return {name: text for name, text in texts.items() if text is not None}


def home_of(catalogue: Catalogue, record: CatalogueRecord) -> str:
    """Return the directory that a catalogue had when a container was rendered, or its own where that is the same.

    A directory that has two names, by a link or a second mount, is left under the name that the texts have.
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
        root = find_root(text.encode()) if text else None
        if root:
            yield root


def _is_inside(name: str) -> bool:
    """Return whether a path below an installation is one that an installation writes."""
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts and len(path.parts) in (1, 2)
