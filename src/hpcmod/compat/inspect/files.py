"""The files that programs in a container see: the image's files, and the host's files under bind paths.

Links are followed as by the kernel inside the container: a link in a bound directory to a path that is not bound is
broken, or points to the image's file at that path.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from hpcmod.compat.values.elf import ElfFile, parse_elf
from hpcmod.core.errors import BadInputError
from hpcmod.images import Squashfs

_MOST_LINKS = 40  # the kernel's limit
_KINDS = {stat.S_IFDIR: "dir", stat.S_IFREG: "file", stat.S_IFLNK: "symlink"}


class ContainerFiles:
    """The files of a container; lookups are cached.

    `squashfs`: The image's root file system; None for binds only.
    `binds`: Destination in the container and source on the host, both absolute; the last bind of a destination wins.

    Raises VerificationError, LackingError from every method, as `squashfs.Squashfs`.
    """

    def __init__(self, squashfs: Squashfs | None, binds: Sequence[tuple[str, str]] = ()) -> None:
        self._squashfs = squashfs
        self.compression = squashfs.compression if squashfs else ""
        self._binds = {destination.rstrip("/"): os.path.realpath(source).rstrip("/") for destination, source in binds}
        self._mounts = {parent for destination in self._binds for parent in _parents(destination)}
        self._seen: dict[str, tuple[str, str]] = {}
        self._real: dict[str, str] = {}
        self._elf: dict[str, ElfFile | None] = {}
        self.broken: dict[str, str] = {}
        """What is wrong with files that were read as ELF and are none, or damaged, by path."""

    def with_binds(self, binds: Sequence[tuple[str, str]]) -> ContainerFiles:
        """Return the same image's files with these binds mounted over them; links of the image are followed."""
        return ContainerFiles(self._squashfs, [(self._place(destination), source) for destination, source in binds])

    def _place(self, destination: str) -> str:
        parent, _, name = destination.rstrip("/").rpartition("/")
        return f"{self.real(parent).rstrip('/') or parent}/{name}"

    def real(self, path: str) -> str:
        """Return a path with all links resolved; empty if missing."""
        if path not in self._real:
            self._real[path] = self._follow(path)
        return self._real[path]

    def elf(self, path: str) -> ElfFile | None:
        """Parse an ELF file; None if the file is missing or not ELF."""
        real = self.real(path)
        if not real or self._look(real)[0] != "file":
            return None
        if real not in self._elf:
            try:
                self._elf[real] = self._parse(real)
            except BadInputError as err:
                self._elf[real], self.broken[path] = None, err.message
        return self._elf[real]

    def listdir(self, path: str) -> list[str]:
        """List the names in a directory, sorted; empty if missing or not readable."""
        real = self.real(path)
        source = self.on_host(real)
        below = [mount for mount in self._mounts if mount and mount.rpartition("/")[0] == real.rstrip("/")]
        names = {mount.rpartition("/")[2] for mount in below} if real else set()
        try:
            if source:
                names.update(os.listdir(source))  # noqa: PTH208 - only the names
            elif real and self._squashfs:
                names.update(self._squashfs.listdir(real))
        except OSError:
            pass
        return sorted(names)

    def read_bytes(self, path: str, limit: int) -> bytes:
        """Read the first bytes of a file; empty if missing."""
        real = self.real(path)
        if not real or self._look(real)[0] != "file":
            return b""
        source = self.on_host(real)
        if not source:
            return self._squashfs.read_bytes(real, limit) if self._squashfs else b""
        try:
            with Path(source).open("rb") as file:
                return file.read(limit)
        except OSError:
            return b""

    def on_host(self, real: str) -> str:
        """Return the host path of a resolved path under a bind; empty if the file is the image's."""
        for destination in _parents(real):
            if destination in self._binds:
                return self._binds[destination] + real[len(destination) :]
        return ""

    def _parse(self, real: str) -> ElfFile | None:
        source = self.on_host(real)
        if source:
            try:
                with Path(source).open("rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    elf = parse_elf(lambda at, length: os.pread(file.fileno(), length, at), size)
            except OSError:  # the loader continues to search
                return None
        else:
            opened = self._squashfs.open_file(real) if self._squashfs else None
            elf = parse_elf(opened.read, opened.size) if opened else None
        if elf is None:
            raise BadInputError("not an ELF file")
        return elf

    def _follow(self, path: str) -> str:
        todo, links, at = deque(_parts(path)), 0, ""
        while todo:
            name = todo.popleft()
            if name == "..":
                at = at.rpartition("/")[0]
                continue
            kind, target = self._look(f"{at}/{name}")
            if kind == "symlink":
                links += 1
                if links > _MOST_LINKS:
                    return ""
                at = "" if target.startswith("/") else at
                todo.extendleft(reversed(_parts(target)))
            elif not kind or (todo and kind != "dir"):
                return ""
            else:
                at = f"{at}/{name}"
        return at or "/"

    def _look(self, path: str) -> tuple[str, str]:
        """Return the kind of the file at a path whose parents are resolved, and its target if it is a link."""
        if path not in self._seen:
            self._seen[path] = self._look_once(path)
        return self._seen[path]

    def _look_once(self, path: str) -> tuple[str, str]:
        if path in self._mounts and path not in self._binds:
            return "dir", ""
        source = self.on_host(path)
        if source:
            return _look_on_host(source)
        inode = self._squashfs.find(path, follow=False) if self._squashfs else None
        return (inode.kind, os.fsdecode(inode.target)) if inode else ("", "")


def _look_on_host(path: str) -> tuple[str, str]:
    try:
        kind = _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "other")
        return kind, os.readlink(path) if kind == "symlink" else ""  # noqa: PTH115 - the target unchanged, as a string
    except OSError:
        return "", ""


def _parents(path: str) -> list[str]:
    """Return a path and its parents, longest first; the root is the empty string."""
    path = path.rstrip("/")
    return [path, *(path[:at] for at in range(len(path) - 1, -1, -1) if path[at] == "/")]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
