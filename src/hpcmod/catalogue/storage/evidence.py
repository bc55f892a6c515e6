"""Evidence that a file or directory belongs to the catalogue, before others are given access to it.

Any user who may write a directory can rename another user's private file into it, so the path of a file proves
nothing: its content counts, or that only its owner may write the directory. A directory that only its owner may write
cannot be renamed into another one by anyone else: if it is at a path that the catalogue uses, it is the catalogue's.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

from hpcmod.catalogue.records.index import INDEX, PACKAGES
from hpcmod.catalogue.records.store import Catalogue, software_of
from hpcmod.catalogue.values.journal import parse_change
from hpcmod.catalogue.values.record import RECORD_LIMIT, CatalogueRecord, parse_record
from hpcmod.catalogue.visible.kept import KEPT_MODULE, kept_directory
from hpcmod.catalogue.visible.modulefiles import script_files, visible_files
from hpcmod.core.errors import HpcmodError

Test = Callable[[BinaryIO], bool]

_LAYOUT = ("records", "images", "easyconfigs", "software", "modules", "modules/all", "kept", "notices")
_MORE = ("advisories", "licences", "site", ".locks", ".staging", "usage")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LIMIT = 64 << 20  # bytes of a modulefile or a script
_CHUNK = 1 << 20
_WRITTEN = b"Written by hpcmod."


@dataclass(frozen=True)
class Anchor:
    """A file, or a directory with everything below it, that belongs to the catalogue."""

    path: Path
    inode: tuple[int, int]
    """Device and inode number: another file that later gets the name does not count."""


def inode_of(status: os.stat_result) -> tuple[int, int]:
    """Return the device and inode number that identify a file on this machine."""
    return status.st_dev, status.st_ino


def is_closed(status: os.stat_result) -> bool:
    """Return whether only its owner may change the entries of a directory."""
    return stat.S_ISDIR(status.st_mode) and not status.st_mode & _OTHERS_WRITE


class Evidence:
    """Cached answers for one walk through a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._owned: dict[Path, Anchor | None] = {}

    def find(self, path: Path, status: os.stat_result) -> Anchor | None:
        """Return the proof that a path is the catalogue's: itself, or a parent that only its owner may change."""
        itself = Anchor(path, inode_of(status))
        if path == self._catalogue.directory:
            return itself
        above = self._look(path.parent)
        if above:
            return above
        if stat.S_ISDIR(status.st_mode):
            return itself if self._look(path) == itself else None
        return itself if self._is_file_of_ours(itself) else None

    def _look(self, directory: Path) -> Anchor | None:
        if directory not in self._owned:
            self._owned[directory] = self._look_anew(directory)
        return self._owned[directory]

    def _look_anew(self, directory: Path) -> Anchor | None:
        root = self._catalogue.directory
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            opened = self._catalogue.tree.open(directory, flags)
        except OSError:
            return None
        status = os.fstat(opened)
        os.close(opened)
        if not is_closed(status):
            return None
        above = None if directory == root else self._look(directory.parent)
        return above or (Anchor(directory, inode_of(status)) if directory in self._directories else None)

    def _is_file_of_ours(self, anchor: Anchor) -> bool:
        if anchor.path not in self._files:
            return False
        with suppress(OSError, HpcmodError, ValueError), self._catalogue.tree.open_file(anchor.path) as file:
            return inode_of(os.fstat(file.fileno())) == anchor.inode and self._files[anchor.path](file)
        return False

    @cached_property
    def _records(self) -> tuple[CatalogueRecord, ...]:
        return tuple(self._catalogue.readable_records())

    @cached_property
    def _directories(self) -> frozenset[Path]:
        """Return the directories that a catalogue with these records has."""
        root = self._catalogue.directory
        found = {root / name for name in (*_LAYOUT, *_MORE)}
        for path in self._files:
            found |= {root / parent for parent in path.relative_to(root).parents}
        for record in self._records:
            software = software_of(self._catalogue, record)
            found |= {software, software.parent}
        return frozenset(found)

    @cached_property
    def _files(self) -> dict[Path, Test]:
        """Return the files that a catalogue with these records has, each with a test of its content."""
        catalogue = self._catalogue
        found: dict[Path, Test] = {
            catalogue.directory / "catalogue.json": lambda file: b'"format"' in file.read(_LIMIT),
            catalogue.directory / INDEX: _is_index,
            catalogue.directory / PACKAGES: _is_index,
            catalogue.directory / "journal.jsonl": lambda file: parse_change(file.readline(), "it").id > 0,
        }
        for record in self._records:
            found[catalogue.record_path(record.name, record.version)] = partial(_is_record, record)
            for place in (catalogue.images, software_of(catalogue, record)):
                found[place / record.sif] = partial(_has_digest, record.sha256)
            if record.licence:
                found[catalogue.directory / "licences" / record.licence] = partial(_has_digest, record.licence)
            kept = kept_directory(catalogue, record)
            found |= {kept / name: lambda file: _WRITTEN in file.read(_LIMIT) for name in KEPT_MODULE.values()}
            with suppress(OSError, HpcmodError):
                texts = {**dict(visible_files(catalogue, record)), **script_files(catalogue, record)}
                found |= {path: partial(_has_text, text) for path, text in texts.items()}
        return found


def _is_index(file: BinaryIO) -> bool:
    return {"format", "names"} <= set(json.loads(file.read(_LIMIT)))


def _is_record(record: CatalogueRecord, file: BinaryIO) -> bool:
    return parse_record(file.read(RECORD_LIMIT), "it") == record


def _has_digest(sha256: str, file: BinaryIO) -> bool:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest() == sha256


def _has_text(text: str, file: BinaryIO) -> bool:
    return file.read(_LIMIT) == text.encode()
