"""Write a new SIF from an image and a user's packages, without starting a container or unpacking the image.

The image's compressed blocks are copied as they are, the packages' too if they are in a squashfs with the same
compressor and block size. The same image and the same packages always give the same SIF.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from hpcmod.errors import BadInputError, LackingError, VerificationError, explain_os_error
from hpcmod.fs.replacing import scratch
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.image.bake.packages import PackageTree, Venv, directory_in, open_packages
from hpcmod.image.bake.placement import OF_EMPTY_VENV, Target, find_new_commands, place_packages
from hpcmod.image.inspect.contents import (
    BAKED_IN_CONTAINER,
    baked_prefixes,
    find_python,
    read_environment,
    read_facts,
    site_directories,
)
from hpcmod.image.integrity import Progress, Ticker, check_sha256, file_sha256
from hpcmod.image.preflight import Need, check_room
from hpcmod.image.sif.labels import METADATA, with_labels
from hpcmod.image.sif.reader import Sif, SifDescriptor, check_sif, open_sif, read_sif, squashfs_partition
from hpcmod.image.sif_writer import SifObject, sync_and_hash, write_sif
from hpcmod.image.squashfs import reuse
from hpcmod.image.squashfs.nodes import SourceTree, read_tree
from hpcmod.image.squashfs.reader import Squashfs
from hpcmod.image.squashfs.tree import Node
from hpcmod.image.squashfs.writer import SquashfsWriter
from hpcmod.image.trust.provenance import Provenance, now, remember, sidecar, write_provenance
from hpcmod.model.images.facts import PythonFacts
from hpcmod.model.packages.sources import Editable

_MODE = 0o755
_LARGEST_OBJECT = 64 << 20
_NAMESPACE = uuid.UUID("5b1f3f0e-8f0a-4a37-b0a5-2f2d6a1c7f43")  # random, fixed once: of the UUIDs of baked images
_NOT_COPIED = ("partition", "signature", "crypto message")
_LABELS = ".singularity.d/labels.json"
_LABEL = "org.hpcmod.bake"
_LARGEST_LABELS = 1 << 20


@dataclass(frozen=True)
class BakeRequest:
    """An image, and the packages to add to it."""

    image: Path
    packages: Path
    """A directory or a squashfs with `venv/NAME/...`, as it is at /user-software."""
    out: Path
    tool: str
    """Name and version of this program, for the provenance file."""
    venv: str = ""
    """Virtual environment to prefer if there are several."""
    sha256: str = ""
    """Expected checksum of the image; empty if unknown."""
    force: bool = False
    """Replace an existing file."""
    environ: Mapping[str, str] = field(default_factory=dict)
    shown: str = ""
    """Name of the image in the provenance file; empty for its path."""


@dataclass(frozen=True)
class BakePlan:
    """What a bake adds to an image."""

    image: str
    packages: str
    path: str
    python: str
    """Version of the image's Python."""
    prefix: str
    """Prefix of the added packages in the image."""
    added: tuple[str, ...]
    """Packages, as NAME==VERSION."""
    commands: tuple[str, ...]
    """Commands added next to the image's Python."""
    files: int
    """Number of added files."""
    bytes: int
    """Largest expected size of the new SIF."""
    left_out: tuple[str, ...]
    """Parts of the image that are left out of the new SIF: its signatures."""
    editable: tuple[Editable, ...]
    """Packages whose code is not in the new SIF, because it is elsewhere."""


@dataclass(frozen=True)
class Baked:
    """A baked image."""

    path: Path
    sha256: str
    size: int
    plan: BakePlan


def plan_bake(request: BakeRequest) -> BakePlan:
    """Plan what `bake` would do.

    Raises
    ------
    HpcmodError
        As `bake` before it writes.
    """
    with _prepared(request) as bake:
        return bake.plan


def bake(request: BakeRequest, *, progress: Progress | None = None) -> Baked:
    """Write the new SIF and its provenance file; it gets its final name once it is complete and checked.

    Raises
    ------
    NotFoundError
        If the image or the packages are missing.
    BadInputError
        If the output exists, the image has no Python, or the packages are for another one.
    VerificationError
        If the image is damaged or does not have the expected checksum.
    NoSpaceError
        If the SIF does not fit.
    """
    for name in (request.out.name, sidecar(request.out).name):
        clear_leftovers(request.out.parent, name)
    with _prepared(request) as prepared, scratch(request.out) as made:
        needed = prepared.plan.bytes
        check_room([Need(request.out.parent, needed, 2, "the SIF at most", "choose another path: -o PATH")])
        sha256 = _write(prepared, made.path, progress)
        _check(prepared, made.path)
        provenance = Provenance(
            reference=f"bake:{request.shown or prepared.plan.image}@sha256:{prepared.sha256}",
            digest="",
            sha256=sha256,
            size=made.path.stat().st_size,
            time=now(),
            tool=request.tool,
        )
        remember(provenance, request.environ)
        write_provenance(made.beside / request.out.name, provenance)
        check_free(request.out, force=request.force)
        made.put()
    return Baked(request.out, sha256, provenance.size, prepared.plan)


def _write(prepared: _Prepared, path: Path, progress: Progress | None) -> str:
    """Write the SIF to a temporary path, synced to disk; return its sha256."""
    size = prepared.sif.size
    ticker = Ticker(progress, 2 * size)
    prepared.sha256 = file_sha256(prepared.sif.path, lambda done, _: ticker.tick(done))
    check_sha256(prepared.sif.path, expected=prepared.request.sha256 or None, found=prepared.sha256)
    prepared.report = lambda done: ticker.tick(size + min(done, size))
    try:
        with path.open("x+b") as file:
            os.fchmod(file.fileno(), _MODE)
            prepared.write(file)
            sha256 = sync_and_hash(file)
    except OSError as err:
        raise explain_os_error(OSError(err.errno, err.strerror, str(path))) from err
    ticker.tick(2 * size)
    return sha256


def _check(prepared: _Prepared, path: Path) -> None:
    """Read the new SIF as any image, and check that it has the Python and all added packages."""
    check_sif(read_sif(path), architecture=prepared.sif.architecture)
    facts = read_facts(path)
    found = {f"{one.name}=={one.version}" for one in facts.packages}
    missing = [name for name in prepared.plan.added if name not in found]
    if facts.python != prepared.target.python or missing:
        raise VerificationError(
            f"{prepared.request.out}: the written image lacks {', '.join(missing) or 'its Python'}",
            "This is a bug in hpcmod: please report it with the output of `hpcmod bake --dry-run`.",
        )


def check_free(out: Path, *, force: bool) -> None:
    """Check that a SIF may be written.

    Raises
    ------
    BadInputError
        If the path is a directory, or the file exists and must not be replaced.
    """
    if out.is_dir():
        raise BadInputError(f"{out}: is a directory", "Give a file name for the SIF.")
    if out.exists() and not force:
        raise BadInputError(f"{out}: already exists", "Choose another file, or replace it with --force.")


@contextmanager
def _prepared(request: BakeRequest) -> Iterator[_Prepared]:
    check_free(request.out, force=request.force)
    sif = read_sif(request.image)
    partition = squashfs_partition(sif)
    with open_sif(sif.path) as file, open_packages(request.packages) as packages:
        squashfs = Squashfs(file, partition.offset, partition.size)
        target = _find_target(squashfs, sif.path)
        venv = _choose_venv(packages, target.python, request)
        _check_something_to_add(packages, venv, request)
        tree = read_tree(file, partition.offset, partition.size)
        yield _Prepared(request, sif, file, tree, packages, target, venv, _read_labels(squashfs))


def _find_target(squashfs: Squashfs, image: Path) -> Target:
    python = find_python(squashfs, *read_environment(squashfs))
    if python is None:
        raise LackingError(f"{image}: has no Python, so no packages can be added to it")
    baked = baked_prefixes(squashfs)
    own = [place for place in site_directories(squashfs, python) if not place.startswith(f"{BAKED_IN_CONTAINER}/")]
    commands = squashfs.real_path(f"{python.prefix}/bin")
    if not own or not commands:
        raise LackingError(f"{image}: no directory of packages found for {python.executable}")
    number = 1 + int(baked[0].rpartition("/")[2]) if baked else 1
    return Target(python, own[0], commands, number)


def _choose_venv(packages: PackageTree, python: PythonFacts, request: BakeRequest) -> Venv:
    found = packages.venvs()
    if not found:
        raise BadInputError(
            f"{request.packages}: no packages: expected venv/NAME/lib/python{python.version}/site-packages in it",
            "Give the directory or squashfs that is mounted at /user-software in the container: --packages PATH",
        )
    fitting = [venv for venv in found if venv.python == python.version]
    if not fitting:
        raise LackingError(
            f"{request.packages}: its packages are for Python {found[0].python}, the image has {python.version}",
            "Install the packages again on this image.",
        )
    preferred = [venv for venv in fitting if venv.name == request.venv]
    if len(fitting) > 1 and not preferred:
        names = ", ".join(venv.name for venv in fitting)
        raise BadInputError(
            f"{request.packages}: several virtual environments: {names}", "Choose one with --venv NAME."
        )
    chosen = (preferred or fitting)[0]
    if b"conda-meta" in chosen.root.children:
        raise BadInputError(
            f"{request.packages}: has conda packages, which cannot be put into an image: their files name their path",
            "Bake a set without them: hpcmod drop them, or choose another set with HPCMOD_PACKAGES.",
        )
    return chosen


def _check_something_to_add(packages: PackageTree, venv: Venv, request: BakeRequest) -> None:
    """Check that there is more than an empty virtual environment."""
    if any(name not in OF_EMPTY_VENV for name in venv.site.children) or set(packages.root.children) - {b"venv"}:
        return
    raise BadInputError(
        f"{request.packages}: the virtual environment {venv.name} has no packages, so there is nothing to add",
        "Install some first, `hpcmod add CONTAINER PACKAGE`, or choose another environment with --venv NAME.",
    )


def _read_labels(squashfs: Squashfs) -> dict[str, object]:
    """Return the labels in the image's root file system; empty if it has none, or invalid ones."""
    found = squashfs.find(f"/{_LABELS}")
    if found is None or found.kind != "file":
        return {}
    try:
        labels = json.loads(squashfs.read_bytes(f"/{_LABELS}", _LARGEST_LABELS))
    except (ValueError, RecursionError):
        return {}
    return labels if isinstance(labels, dict) else {}


class _Prepared:
    """A bake whose inputs are open and have been read."""

    def __init__(
        self,
        request: BakeRequest,
        sif: Sif,
        file: BinaryIO,
        tree: SourceTree,
        packages: PackageTree,
        target: Target,
        venv: Venv,
        labels: dict[str, object],
    ) -> None:
        self.request, self.sif, self.target = request, sif, target
        self.sha256 = request.sha256
        self.report: Callable[[int], None] = lambda done: None
        self._file, self._tree, self._packages, self._venv = file, tree, packages, venv
        self._added = packages.packages(venv.site)
        self._labels = labels
        self._done = 0
        self.plan = self._make_plan()

    def _make_plan(self) -> BakePlan:
        left_out = [one for one in self.sif.descriptors if not one.primary and not _is_copied(one)]
        return BakePlan(
            image=str(self.request.image),
            packages=str(self.request.packages),
            path=str(self.request.out),
            python=self.target.python.version,
            prefix=self.target.prefix,
            added=tuple(f"{one.name}=={one.version}" for one in self._added),
            commands=tuple(map(os.fsdecode, find_new_commands(self._tree.root, self._venv, self.target))),
            files=self._packages.files,
            bytes=self.sif.size + self._packages.size + (1 << 20),
            left_out=tuple(f"{one.kind} {one.name}".rstrip() for one in left_out),
            editable=self._packages.editable(self._venv.site),
        )

    def write(self, file: BinaryIO) -> None:
        """Write the SIF into an empty file."""
        identity = f"{self.sha256} {self.plan.prefix} {self._added_label()} {self._packages.size}"
        write_sif(
            file,
            architecture=self.sif.architecture,
            created=self.sif.created,
            uuid=uuid.uuid5(_NAMESPACE, identity).bytes,
            objects=[self._object(one) for one in self.sif.descriptors if _is_copied(one)],
            write_partition=self._write_squashfs,
        )

    def _object(self, one: SifDescriptor) -> SifObject:
        if one.size > _LARGEST_OBJECT:
            raise BadInputError(f"{self.sif.path}: {one.kind} {one.name} has {one.size} bytes")
        data = os.pread(self._file.fileno(), one.size, one.offset)
        if one.kind == "json" and one.name == METADATA:
            data = with_labels(data, self._new_labels())
        return SifObject(one.kind, one.name, data)

    def _write_squashfs(self, file: BinaryIO) -> int:
        root, blocks = self._tree.root, self._tree.blocks
        codec = reuse.same_codec(blocks)
        with SquashfsWriter(file, codec=codec, block_size=blocks.superblock.block_size) as writer:

            def add_text(_: str, content: bytes, mode: int) -> Node:
                data = writer.add_file(len(content), [content])
                return Node("file", mode, mtime=self.sif.created, data=data)

            place_packages(root, self._packages, self._venv, self.target, add_text)
            scripts = directory_in(root, b".singularity.d")
            if scripts is not None:
                text = json.dumps({**self._labels, **self._new_labels()}, indent="\t", sort_keys=True)
                scripts.children[b"labels.json"] = add_text(_LABELS, text.encode(), 0o644)
            reuse.copy_contents(root, self._tree, writer, on_bytes=self._count)
            self._packages.write_contents(writer, root)
            return writer.finish(root, mtime=self.sif.created)

    def _count(self, count: int) -> None:
        self._done += count
        self.report(self._done)

    def _new_labels(self) -> dict[str, str]:
        return {
            f"{_LABEL}.image": f"sha256:{self.sha256}",
            f"{_LABEL}.packages": self._added_label(),
            f"{_LABEL}.prefix": self.plan.prefix,
        }

    def _added_label(self) -> str:
        return " ".join(self.plan.added)


def _is_copied(one: SifDescriptor) -> bool:
    return one.kind not in _NOT_COPIED and not one.kind.startswith("0x")
