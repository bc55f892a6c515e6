"""Corner cases of OCI images: our conversion and Apptainer's, both as an ordinary user, give the same file tree."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.core.values.reference import ImageReference
from hpcmod.images.convert import ConvertedImage, ConvertOptions, convert_image
from hpcmod.images.oci.layout import read_layout
from hpcmod.images.sif.reader import read_sif
from tests.oci_corpus import CASES, write_case
from tests.stack import Done, Stack, run

pytestmark = pytest.mark.stack

Tree = dict[bytes, "Item"]


@dataclass(frozen=True)
class Item:
    """A file, directory or link in a SIF."""

    kind: int
    mode: int
    owner: tuple[int, int]
    mtime: int
    target: bytes
    names: frozenset[bytes]
    """All names of a file (hard links)."""
    xattrs: tuple[tuple[str, bytes], ...]
    sha256: str


@dataclass(frozen=True)
class Difference:
    """An intentional difference from Apptainer."""

    paths: frozenset[bytes]
    why: str


def differ(*paths: str, why: str) -> Difference:
    return Difference(frozenset(path.encode() for path in paths), why)


WRITTEN_BY_BOTH = b".singularity.d/"
"""Both write their own scripts there: the names and modes are the same, the contents differ."""

_UNPACKERS_MARK = "Apptainer's unpacker notes down owners it cannot give, for repacking: nobody repacks a SIF"
DIFFERENCES = {
    "owners": differ("u", "d", "big", why=_UNPACKERS_MARK),
    "owners-names-long": differ("u", why=_UNPACKERS_MARK),
    "file-to-directory-implied": differ(
        *("x", "x/y"), why="Apptainer gives the new directory the file's mode, so that nothing in it can be reached"
    ),
    "hard-link-to-symlink": differ("l", "h", why="mksquashfs makes two links of a link with two names"),
    "modes-without-read": differ(
        *("none", "w", "shut", "shut/in", "x"),
        why="Apptainer as a user packs what it may not read as empty files, and leaves such directories out",
    ),
    "mtimes": differ(
        "negative", "after-2106", why="a squashfs counts 32 bits: Apptainer's times wrap round, ours end there"
    ),
}
REFUSED_BY_APPTAINER = {
    "hard-link-forward": "its reader knows no links to what follows",
    "pax-global": "its reader knows no global headers",
}


@contextmanager
def mounted(sif: Path, place: Path) -> Iterator[Path]:
    """Mount the root file system of a SIF; plain squashfuse would give each hard link its own inode number."""
    offset = next(each.offset for each in read_sif(sif).descriptors if each.primary)
    place.mkdir()
    subprocess.run(["squashfuse_ll", "-o", f"offset={offset}", sif, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["fusermount3", "-u", place], check=True)


def read_tree(root: Path) -> Tree:
    """Read everything below a directory."""
    names: dict[int, set[bytes]] = {}
    paths = {os.fsencode(path.relative_to(root)): path for path in root.rglob("*")}
    for name, path in paths.items():
        names.setdefault(path.lstat().st_ino, set()).add(name)
    return {name: read_item(path, names) for name, path in paths.items()}


def read_item(path: Path, names: Mapping[int, set[bytes]]) -> Item:
    found = path.lstat()
    kind = stat.S_IFMT(found.st_mode)
    xattrs = sorted(os.listxattr(path, follow_symlinks=False))
    return Item(
        kind,
        stat.S_IMODE(found.st_mode),
        (found.st_uid, found.st_gid),
        int(found.st_mtime),
        os.fsencode(path.readlink()) if kind == stat.S_IFLNK else b"",
        frozenset() if kind == stat.S_IFDIR else frozenset(names[found.st_ino]),
        tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in xattrs),
        hashlib.sha256(path.read_bytes()).hexdigest() if kind == stat.S_IFREG else "",
    )


def different(ours: Tree, theirs: Tree, *, began: int) -> dict[bytes, tuple[Item | None, Item | None]]:
    """Return what differs, ours first; times set during the build are not compared."""
    found = {}
    for path in {*ours, *theirs}:
        mine, other = ours.get(path), theirs.get(path)
        if mine and other:
            own = path.startswith(WRITTEN_BY_BOTH) and mine.sha256 != ""
            mtime = mine.mtime if began <= other.mtime < began + 3600 else other.mtime
            other = Item(**{**vars(other), "mtime": mtime, "sha256": mine.sha256 if own else other.sha256})
        if mine != other:
            found[path] = (mine, other)
    return found


def ours(layout: Path, out: Path, **options: object) -> ConvertedImage:
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        return convert_image(image, out, options=ConvertOptions(**options))  # type: ignore[arg-type]


def apptainer(stack: Stack, home: Path, *args: str | Path) -> Done:
    places = {"APPTAINER_CACHEDIR": str(home / "cache"), "APPTAINER_TMPDIR": str(home)}
    return run([str(stack.apptainer), *map(str, args)], stack.environment(home, **places), home)


ACCEPTED = [name for name, case in CASES.items() if case.accepted]


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_tree_is_the_one_that_apptainer_makes(name: str, stack: Stack, tmp_path: Path) -> None:
    layout = write_case(tmp_path / "layout", CASES[name])
    ours(layout, tmp_path / "ours.sif")
    with mounted(tmp_path / "ours.sif", tmp_path / "a") as root:
        mine = read_tree(root)
    began = int(time.time())
    built = apptainer(stack, tmp_path, "build", tmp_path / "theirs.sif", f"oci:{layout}")
    if name in REFUSED_BY_APPTAINER:
        assert built.returncode != 0
        return
    assert built.returncode == 0, built.stderr
    with mounted(tmp_path / "theirs.sif", tmp_path / "b") as root:
        found = different(mine, read_tree(root), began=began)
    expected = DIFFERENCES[name].paths if name in DIFFERENCES else frozenset()
    assert found.keys() == expected, found
