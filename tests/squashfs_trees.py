"""Trees for the squashfs writer, and readers that show what other programs find in its output.

`write_squashfs` writes a tree; `read_tar` (squashfs-tools-ng), `read_mounted` (squashfuse) and
`read_unpacked` (squashfs-tools) return trees to compare with it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import random
import stat
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.images.squashfs.codecs import codec
from hpcmod.images.squashfs.tree import Node
from hpcmod.images.squashfs.writer import SquashfsWriter

TIMEOUT = 120.0
BLOCK = 4096  # the minimum, so that a megabyte is many blocks
_MODES = {
    stat.S_IFDIR: "dir",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFBLK: "block",
    stat.S_IFCHR: "char",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}
_TYPES = {
    tarfile.DIRTYPE: "dir",
    tarfile.REGTYPE: "file",
    tarfile.SYMTYPE: "symlink",
    tarfile.BLKTYPE: "block",
    tarfile.CHRTYPE: "char",
    tarfile.FIFOTYPE: "fifo",
}


@dataclass(frozen=True)
class Entry:
    """A file system entry. `same_as` makes it a hard link to the file at another path, which must sort before it."""

    kind: str = "file"
    mode: int = 0o644
    content: bytes = b""
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    target: bytes = b""
    device: tuple[int, int] = (0, 0)
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    same_as: bytes = b""

    def __repr__(self) -> str:
        content = hashlib.sha256(self.content).hexdigest()[:12] if len(self.content) > 40 else self.content
        rest = (self.uid, self.gid, self.mtime, self.target[:40], self.device, self.xattrs, self.same_as)
        return f"<{self.kind} {self.mode:o} {len(self.content)} {content!r} {rest}>"


Tree = Mapping[bytes, Entry]
"""Maps paths without a leading slash to entries; the root is b"", and every directory has an entry."""


def directory(mode: int = 0o755, **more: object) -> Entry:
    return Entry("dir", mode, **more)  # type: ignore[arg-type]


def write_squashfs(
    path: Path,
    tree: Tree,
    *,
    compression: str = "zstd",
    level: int | None = None,
    block_size: int = BLOCK,
    threads: int | None = None,
    offset: int = 0,
    chunk: int = 1000,
) -> Path:
    """Write a tree; contents are passed to the writer in chunks of `chunk` bytes."""
    with path.open("w+b") as file:
        file.write(b"x" * offset)
        with SquashfsWriter(file, codec=codec(compression, level), block_size=block_size, threads=threads) as writer:
            writer.finish(make_nodes(tree, writer, chunk), mtime=1_700_000_000)
    return path


def make_nodes(tree: Tree, writer: SquashfsWriter, chunk: int = 1000) -> Node:
    nodes: dict[bytes, Node] = {}
    for path, entry in sorted(tree.items()):
        nodes[path] = node = nodes[entry.same_as] if entry.same_as else make_node(entry, writer, chunk)
        if path:
            parent, _, name = path.rpartition(b"/")
            nodes[parent].children[name] = node
    return nodes[b""]


def make_node(entry: Entry, writer: SquashfsWriter, chunk: int) -> Node:
    pieces = (entry.content[at : at + chunk] for at in range(0, len(entry.content), chunk))
    data = writer.add_file(len(entry.content), pieces) if entry.kind == "file" else None
    node = Node(entry.kind, entry.mode, mtime=entry.mtime, xattrs=entry.xattrs, target=entry.target, data=data)
    node.uid, node.gid, node.device = entry.uid, entry.gid, entry.device
    return node


def without(tree: Tree, *kinds: str, **changes: object) -> dict[bytes, Entry]:
    """Drop what a reader cannot return: entries of these kinds, and fields, which get the given values."""
    return {path: replace(entry, **changes) for path, entry in tree.items() if entry.kind not in kinds}  # type: ignore[arg-type]


def read_tar(path: Path) -> dict[bytes, Entry]:
    """Read everything but sockets, which tar cannot store, with sqfs2tar."""
    done = subprocess.run(["sqfs2tar", "-r", ".", path], capture_output=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    with tarfile.open(fileobj=io.BytesIO(done.stdout), errors="surrogateescape") as archive:
        return same_names({_tar_path(member.name): _tar_entry(archive, member) for member in archive})


def _tar_path(name: str) -> bytes:
    return os.fsencode(name.removeprefix(".").removeprefix("/"))


def _tar_entry(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[object, Entry]:
    if member.islnk():
        return _tar_path(member.linkname), Entry()
    kind = _TYPES[member.type]
    found = archive.extractfile(member) if kind == "file" else None
    xattrs = {
        key.removeprefix("SCHILY.xattr.").encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape")
        for key, value in member.pax_headers.items()
        if key.startswith("SCHILY.xattr.")
    }
    return _tar_path(member.name), Entry(
        kind,
        member.mode,
        found.read() if found else b"",
        member.uid,
        member.gid,
        int(member.mtime),
        os.fsencode(member.linkname) if kind == "symlink" else b"",
        (member.devmajor, member.devminor) if kind in ("block", "char") else (0, 0),
        tuple(sorted(xattrs.items())),
    )


def same_names(found: Mapping[bytes, tuple[object, Entry]]) -> dict[bytes, Entry]:
    """Turn files with an identity into entries; all names of a file but its first become `same_as` that one."""
    first: dict[object, bytes] = {}
    tree = {}
    for path, (identity, entry) in sorted(found.items()):
        name = first.setdefault(identity, path)
        tree[path] = replace(entry, same_as=b"" if name == path else name)
    return expanded(tree)


def expanded(tree: Tree) -> dict[bytes, Entry]:
    """Copy the fields of the first name to the other names of a file."""
    return {
        path: replace(tree[entry.same_as], same_as=entry.same_as) if entry.same_as else entry
        for path, entry in tree.items()
    }


@contextmanager
def mounted(path: Path, place: Path, *, reader: str) -> Iterator[Path]:
    """Mount with `squashfuse` or `squashfuse_ll`."""
    place.mkdir()
    subprocess.run([reader, path, place], check=True, capture_output=True, timeout=TIMEOUT)
    try:
        yield place
    finally:
        subprocess.run(["fusermount3", "-u", place], check=True, timeout=TIMEOUT)


def read_mounted(place: Path, *, prefixes: Iterable[str] = ("user.",)) -> dict[bytes, Entry]:
    """Read everything under a directory, with the extended attributes that have one of the prefixes."""
    found = {}
    for path in _walk(os.fsencode(place)):
        found[path[len(os.fsencode(place)) + 1 :]] = _entry(path, tuple(prefixes))
    return same_names(found)


def _walk(path: bytes) -> Iterator[bytes]:
    yield path
    for entry in os.scandir(path):
        yield from _walk(entry.path) if entry.is_dir(follow_symlinks=False) else [entry.path]


def _entry(path: bytes, prefixes: tuple[str, ...]) -> tuple[object, Entry]:
    status = os.lstat(path)
    kind = _MODES[stat.S_IFMT(status.st_mode)]
    names = os.listxattr(path, follow_symlinks=False)
    xattrs = [(os.fsencode(name), _xattr(path, name)) for name in sorted(names) if name.startswith(prefixes)]
    return status.st_ino, Entry(
        kind,
        stat.S_IMODE(status.st_mode),
        Path(os.fsdecode(path)).read_bytes() if kind == "file" else b"",
        status.st_uid,
        status.st_gid,
        int(status.st_mtime),
        os.fsencode(Path(os.fsdecode(path)).readlink()) if kind == "symlink" else b"",
        (os.major(status.st_rdev), os.minor(status.st_rdev)) if kind in ("block", "char") else (0, 0),
        tuple(xattrs),
    )


def _xattr(path: bytes, name: str) -> bytes:
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError as err:
        if err.errno != errno.ENODATA:
            raise
        return b""  # squashfuse lists an attribute with an empty value but cannot read it, also in images of mksquashfs


def noise(size: int, seed: int = 1) -> bytes:
    """Return incompressible bytes, whose blocks are stored uncompressed."""
    return random.Random(seed).randbytes(size)  # noqa: S311 - the same each time


def text(size: int) -> bytes:
    """Return compressible bytes."""
    return b"".join(b"line %d of a text that compresses well\n" % number for number in range(size // 30 + 1))[:size]


RICH: Tree = {
    b"": directory(0o755, mtime=1_600_000_000, xattrs=((b"user.root", b"has one too"),)),
    b"empty": Entry(),
    b"byte": Entry(content=b"x"),
    b"short": Entry(content=text(BLOCK - 1)),
    b"block": Entry(content=text(BLOCK)),
    b"block-and-byte": Entry(content=text(BLOCK + 1)),
    b"blocks": Entry(content=text(50 * BLOCK)),
    b"large": Entry(content=text(1_500_000)),
    b"noise": Entry(content=noise(3 * BLOCK + 77)),
    b"noise-short": Entry(content=noise(1000)),
    b"zeros-short": Entry(content=bytes(1000)),
    b"holes-first": Entry(content=bytes(5 * BLOCK) + b"end"),
    b"holes-last": Entry(content=noise(BLOCK) + bytes(5 * BLOCK + 9)),
    b"holes-between": Entry(content=noise(BLOCK) + bytes(3 * BLOCK) + text(BLOCK + 5)),
    b"holes-only": Entry(content=bytes(9 * BLOCK)),
    b"holes-only-uneven": Entry(content=bytes(9 * BLOCK + 1)),
    b"twin-1": Entry(content=noise(9 * BLOCK + 5, 2), mode=0o600),
    b"twin-2": Entry(content=noise(9 * BLOCK + 5, 2), mode=0o755),
    b"twin-not": Entry(content=noise(9 * BLOCK + 4, 2) + b"?"),
    b"twin-short-1": Entry(content=b"the same words in forty bytes, more or less"),
    b"twin-short-2": Entry(content=b"the same words in forty bytes, more or less", uid=7),
    b"hard": Entry(content=text(2 * BLOCK), uid=12, mtime=77, xattrs=((b"user.hard", b"linked"),)),
    b"hardly": directory(),
    b"hardly/again": Entry(same_as=b"hard"),
    b"hardly/and-again": Entry(same_as=b"hard"),
    b"hollow": directory(0o1777),
    b"link": Entry("symlink", 0o777, target=b"a/b/../c"),
    b"link-again": Entry(same_as=b"link"),
    b"link-long": Entry("symlink", 0o777, target=b"t" * 4095),
    b"link-with-xattr": Entry("symlink", 0o777, target=b"x", xattrs=((b"security.selinux", b"label\0"),)),
    b"device": directory(0o700),
    b"device/block": Entry("block", 0o660, device=(8, 1)),
    b"device/block-again": Entry(same_as=b"device/block"),
    b"device/char": Entry("char", 0o666, device=(1, 3), xattrs=((b"trusted.x", b""),)),
    b"device/high": Entry("char", 0o600, device=(4095, 1048575)),
    b"device/fifo": Entry("fifo", 0o622),
    b"device/fifo-with-xattr": Entry("fifo", 0o622, xattrs=((b"security.x", b"y"),)),
    b"device/socket": Entry("socket", 0o755, uid=1, gid=2),
    b"setuid": Entry(mode=0o6755, content=b"#!/bin/sh\n"),
    b"no-rights": Entry(mode=0, content=b"secret"),
    b"owner": Entry(uid=1000, gid=100),
    b"owner-high": Entry(uid=4_294_967_294, gid=65_536),
    b"time-high": Entry(mtime=4_294_967_295),
    b"time-2038": Entry(mtime=2_147_483_648),
    b"attributes": Entry(
        xattrs=(
            (b"security.capability", bytes(range(20))),
            (b"trusted.overlay.opaque", b"y"),
            (b"user.empty", b""),
            (b"user.n" + b"n" * 249, b"v" * 5000),
        ),
    ),
    b"attributes-again": Entry(content=b"x", xattrs=((b"user.empty", b""), (b"user.z", b"1"))),
    b"n" * 255: Entry(content=b"a name of 255 bytes"),
    b"caf\xc3\xa9 with space": Entry(content=b"UTF-8"),
    b"\xff\xfe not UTF-8": Entry(content=b"bytes"),
    b"new\nline\ttab\\": Entry(content=b"odd"),
    b"many": directory(),
    **{b"many/%05d-%s" % (number, b"x" * (number % 90)): Entry(content=b"%d" % number) for number in range(2500)},
    b"deep": directory(),
    **{b"deep" + b"/d" * depth: directory() for depth in range(1, 200)},
}
"""One of everything that a squashfs can hold; written with the smallest block size."""
