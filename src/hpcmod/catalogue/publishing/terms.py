"""Terms of a restricted container: the group that may read its image, and the licence that users accept once."""

from __future__ import annotations

import grp
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.records.sharing import check_readable_by_readers, file_mode, may_give_to
from hpcmod.catalogue.records.store import Catalogue, is_refused, software_of
from hpcmod.catalogue.storage.modes import FOR_GROUP, find_wrong_modes, fix_modes
from hpcmod.catalogue.values.record import CatalogueRecord, publishing_again, refusal
from hpcmod.core.errors import BadInputError, LackingError, NotFoundError
from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.tree import write_file
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.text import absolute
from hpcmod.images import Sif

_LIMIT = 1 << 20  # bytes of a licence


def set_terms(catalogue: Catalogue, record: CatalogueRecord, *, readers: str, licence: str) -> CatalogueRecord:
    """Restrict the image of a container and keep the text of its licence; return its record with both.

    `readers`: Name of a group; if empty, unchanged.
    `licence`: Path of a text file; if empty, unchanged.

    Raises NotFoundError if the group or file does not exist; BadInputError if the licence is not valid UTF-8;
    LackingError if this user may not give files to the group.
    """
    if readers:
        for image in _images_of(catalogue, record):
            restrict(catalogue, image, readers)
        record = replace(record, readers=readers)
    if licence:
        path, text = read_licence_file(catalogue, licence)
        catalogue.tree.make_directory(path.parent)
        catalogue.tree.write(path, text, mode=file_mode(catalogue.directory))
        record = replace(record, licence=path.name)
    return record


def read_licence_file(catalogue: Catalogue, licence: str) -> tuple[Path, bytes]:
    """Return the path that a licence gets in the catalogue, whose name is its sha256, and its text."""
    try:
        text = read_file(licence, _LIMIT)
        text.decode()
    except FileNotFoundError as err:
        raise NotFoundError(f"{licence}: no such file", "Choose the text file of the licence.") from err
    except UnicodeDecodeError as err:
        raise BadInputError(f"{licence}: not valid UTF-8", "Save it as UTF-8.") from err
    return catalogue.licences / hashlib.sha256(text).hexdigest(), text


def _images_of(catalogue: Catalogue, record: CatalogueRecord) -> tuple[Path, Path]:
    return catalogue.images / record.sif, software_of(catalogue, record) / record.sif


def set_readers(catalogue: Catalogue, record: CatalogueRecord) -> None:
    """Let those read the image of a container whom its record names; everybody, if it names no group."""
    images = [image for image in _images_of(catalogue, record) if image.exists()]
    if record.readers:
        for image in images:
            restrict(catalogue, image, record.readers)
    elif images:
        for _ in fix_modes(catalogue, find_wrong_modes(catalogue, images, opens=True)):
            pass  # `hpcmod catalogue verify` reports what could not be changed


def restrict(catalogue: Catalogue, image: Path, readers: str) -> None:
    """Let only its owner and one group read an image; do nothing if the image does not exist.

    Raises LackingError if this user may not do that, or if it is a private file that another user may have put there.
    """
    group = find_group(readers)
    try:
        descriptor = catalogue.tree.open(image, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        status = os.fstat(descriptor)
        if (stat.S_IMODE(status.st_mode), status.st_gid) == (FOR_GROUP, group):
            return  # taking the mode away for a moment would stop a reader who opens it then
        _check_not_private(catalogue, image, descriptor, status)
        os.fchmod(descriptor, FOR_GROUP & ~0o040)  # first: the group is still that of the catalogue
        os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, FOR_GROUP)
    except PermissionError as err:
        raise LackingError(f"{image}: only its owner can restrict it", f"See who that is: ls -l {image}") from err
    finally:
        os.close(descriptor)


def _check_not_private(catalogue: Catalogue, image: Path, descriptor: int, status: os.stat_result) -> None:
    if stat.S_IMODE(status.st_mode) == FOR_GROUP and Sif.matches(descriptor):
        return  # restricted to the readers of another change
    try:
        check_readable_by_readers(catalogue, image)(status)
    except PermissionError as err:
        raise LackingError(f"{image}: {err.strerror}", f"See who put it there: ls -l {image}") from err


def find_group(name: str) -> int:
    """Return the ID of a group to which this user may give files.

    Raises NotFoundError if this machine has no group of that name; LackingError if this user is not a member.
    """
    try:
        group = grp.getgrnam(name).gr_gid
    except KeyError as err:
        raise NotFoundError(f"group {name} not found on this machine", "To list your groups: groups") from err
    if not may_give_to(group):
        cure = f"Ask a member of {name} to publish it, and check with: groups"
        raise LackingError(f"you may not give files to the group {name}", cure)
    return group


def read_licence(catalogue: Catalogue, record: CatalogueRecord) -> str:
    """Return the text of the licence of a container; empty if it has none. Raise NotFoundError if it is missing."""
    if not record.licence:
        return ""
    path = catalogue.licences / record.licence
    try:
        return catalogue.read_file(path, _LIMIT).decode(errors="replace")
    except FileNotFoundError as err:
        cure = f"Its admin can publish it with that text again: {publishing_again(record)} --licence FILE"
        raise NotFoundError(f"{path}: the licence of {record.module} is missing", cure) from err


def is_accepted(record: CatalogueRecord, environ: Mapping[str, str]) -> bool:
    """Return whether a container has no licence, or this user has accepted it."""
    return not record.licence or _marker(record, environ).is_file()


def check_terms(catalogue: Catalogue, record: CatalogueRecord, environ: Mapping[str, str]) -> None:
    """Raise LackingError if this user may not read the image of a container, or has not accepted its licence."""
    if is_refused(catalogue, record):
        raise LackingError(refusal(record))
    if not is_accepted(record, environ):
        raise LackingError(
            f"{record.module} has a licence that you have not accepted",
            f"hpcmod install --accept-licence {sh_word(record.module)}",
        )


def accept(record: CatalogueRecord, text: str, environ: Mapping[str, str]) -> Path:
    """Record that this user accepts a licence, where modules check it on load; return the file, which has its text."""
    path = _marker(record, environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(path, text, mode=0o600)
    return path


def _marker(record: CatalogueRecord, environ: Mapping[str, str]) -> Path:
    state = absolute(environ.get("XDG_STATE_HOME")) or f"{environ.get('HOME', '')}/.local/state"
    return Path(state, "hpcmod", "accepted", record.licence)
