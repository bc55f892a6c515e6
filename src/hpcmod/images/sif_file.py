"""A SIF on disk: what it contains and where it came from, read without starting it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.core.errors import HpcmodError
from hpcmod.core.fs.reading import open_input
from hpcmod.core.values.facts import COMMAND, ImageCommands, ImageFacts, Provenance

if TYPE_CHECKING:
    from hpcmod.images.squashfs.reader import Squashfs

_DEFINITION_LIMIT = 1 << 20  # bytes


class Sif:
    """A SIF on disk, which may not exist yet; each method imports what it needs.

    Raises from every method that reads the file: NotFoundError if there is none; BadInputError if it is not a SIF, or
    has no squashfs; VerificationError if it is truncated or damaged; LackingError if this Python cannot decompress it.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @staticmethod
    def matches(descriptor: int) -> bool:
        """Return whether an open file begins like a SIF."""
        from hpcmod.images.sif.format import MAGIC, MAGIC_AT

        return os.pread(descriptor, len(MAGIC), MAGIC_AT) == MAGIC

    def check(self, architecture: str, *, shown: Path | None = None) -> None:
        """Check that a machine can run it; `architecture` and errors as of `check_sif`, `shown` as of `read_sif`."""
        from hpcmod.images.sif.reader import check_sif, read_sif

        check_sif(read_sif(self.path, shown=shown), architecture=architecture)

    @contextmanager
    def root(self) -> Iterator[Squashfs]:
        """Open the root file system for reading."""
        from hpcmod.images.sif.reader import read_sif, squashfs_partition
        from hpcmod.images.squashfs.reader import Squashfs

        partition = squashfs_partition(read_sif(self.path))
        with open_input(self.path) as file:
            yield Squashfs(file, partition.offset, partition.size)

    def facts(self) -> ImageFacts:
        """Read the facts: labels, environment, and its Python with packages and commands."""
        from hpcmod.images.inspect.contents import read_facts
        from hpcmod.images.sif.reader import read_sif

        header = read_sif(self.path)
        with self.root() as squashfs:
            return read_facts(header, squashfs)

    def commands(self, paths: Iterable[str] = ()) -> ImageCommands:
        """Read which commands it has, and which of the given absolute paths."""
        from hpcmod.images.inspect.contents import read_commands

        with self.root() as squashfs:
            return read_commands(squashfs, paths)

    def entry(self) -> str:
        """Return what the run script does with a command line, as `ImageFacts.entry`; COMMAND if it cannot be read."""
        from hpcmod.images.inspect.entry import read_entry

        with suppress(HpcmodError), self.root() as squashfs:  # the checks of the image report the error
            return read_entry(squashfs)
        return COMMAND

    def definition(self) -> bytes:
        """Return the definition from which it was built; empty if it has none, or one that is too long."""
        from hpcmod.images.sif.reader import read_sif

        found = next((each for each in read_sif(self.path).descriptors if each.kind == "definition"), None)
        if found is None or found.size > _DEFINITION_LIMIT:
            return b""
        with open_input(self.path) as file:
            file.seek(found.offset)
            return file.read(found.size)

    def labels(self) -> dict[str, str]:
        """Return the labels without reading the root file system; errors as of `read_labels`."""
        from hpcmod.images.sif.labels import read_labels

        return read_labels(self.path)

    def add_labels(self, labels: Mapping[str, str]) -> None:
        """Add labels while the SIF is not in use yet, as `add_labels`."""
        from hpcmod.images.sif.labels import add_labels

        add_labels(self.path, labels)

    @property
    def sidecar(self) -> Path:
        """The path of its provenance file."""
        from hpcmod.images.trust.provenance import sidecar

        return sidecar(self.path)

    def provenance(self, environ: Mapping[str, str] | None) -> Provenance | None:
        """Read its provenance file, as `read_provenance`; with `environ`, None unless this user's runs recorded it."""
        from hpcmod.images.trust.provenance import is_remembered, read_provenance

        known = read_provenance(self.path)
        return known if known and (environ is None or is_remembered(known, environ)) else None

    def write_provenance(self, provenance: Provenance, environ: Mapping[str, str] | None) -> None:
        """Write its provenance file; with `environ`, first record that a run of this user has made or fetched it."""
        from hpcmod.images.trust.provenance import remember, write_provenance

        if environ is not None:
            remember(provenance, environ)
        write_provenance(self.path, provenance)
