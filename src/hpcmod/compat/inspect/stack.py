"""Read from a SIF, without starting it, what must match the machine: glibc, MPI, libfabric, plugins, CUDA, ROCm."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.compat.inspect.search import TRIPLETS, find_search
from hpcmod.compat.values.loader import Search
from hpcmod.compat.values.stack import (
    COLLECTIVES,
    MPI4PY,
    PART,
    Fabric,
    GpuStack,
    Mpi,
    Plugin,
    StackFacts,
    make_fabric,
    make_mpi,
    make_plugin,
    newest_version,
    numbers,
)
from hpcmod.core.values.facts import ImageFacts
from hpcmod.images import Sif
from hpcmod.machine.values.targets import find_targets
from hpcmod.modules.values.versions import said_versions

_MOST_DIRECTORIES = 400
_PLACES = (
    "/lib64",
    "/usr/lib64",
    *(f"{place}/{triplet}" for place in ("/lib", "/usr/lib") for triplet in TRIPLETS.values()),
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/lib64/openmpi/lib",
    "/usr/lib64/mpich/lib",
    "/usr/lib64/mpi/gcc/*/lib64",
    "/opt/*",
    "/opt/*/lib",
    "/opt/*/lib64",
    "/opt/*/*/lib",
    "/opt/*/*/lib64",
    "/usr/local/*/lib",
    "/usr/local/*/lib64",
    "/container/*/lib",
    "/container/*/lib64",
)
"""Usual directories of compiled libraries beyond the loader's defaults: such a library is found by an absolute path
or an RPATH."""

_MPI = re.compile(r"lib(?:mpi|mpich|mpi_abi)\.so\.\d+")
_FABRIC = re.compile(r"libfabric\.so\.1")
_PLUGIN = re.compile(r"lib(?:nccl|rccl)-net(?:-[\w.]+)?\.so")
_NCCL = re.compile(r"libnccl\.so(?:\.2)?")
_RCCL = re.compile(r"librccl\.so(?:\.1)?")
_CUDART = re.compile(r"libcudart(?:-[0-9a-f]+)?\.so\.\d[\d.]*")
_CXI = re.compile(r"libcxi\.so\.1")
_LIBC = re.compile(r"libc\.so\.6")
_MUSL = re.compile(r"ld-musl-.+\.so\.1")
_MTL = re.compile(r"mca_(?:mtl|btl|common)_ofi\.so|libmca_common_ofi\.so\.\d+")
_MPI4PY = re.compile(r"MPI\b.*\.so")
_NUMBERED = re.compile(r"\.so\.(\d[\d.]*)$")

_Value = TypeVar("_Value")


@contextmanager
def open_files(path: Path | str, binds: Sequence[tuple[str, str]] = ()) -> Iterator[ContainerFiles]:
    """Open an image's files, with binds (destination, source) mounted over them."""
    with Sif(path).root() as squashfs:
        yield ContainerFiles(squashfs).with_binds(binds)


def find_stack(files: ContainerFiles, facts: ImageFacts, first: Sequence[str] = ()) -> StackFacts:
    """Find the facts of an image, its libraries in the order in which its loader finds them.

    `first`: Directories searched before the image's LD_LIBRARY_PATH.
    """
    search, known = find_search(files, facts.architecture, first)
    look = _Look(files, find_directories(files, search, facts), facts.architecture)
    mpis = tuple(look.each(_MPI, make_mpi))
    fabrics = tuple(look.each(_FABRIC, lambda path, file, elf: make_fabric(path, file, elf, _providers(files, path))))
    plugins = tuple(look.each(_PLUGIN, lambda path, file, elf: make_plugin(path, elf)))
    others = [(MPI4PY, path) for path in _mpi4py(files, facts)]
    others += [(PART, path) for mpi in mpis[:1] for path in _parts_for_fabric(files, mpi)]
    others += [(COLLECTIVES, path) for pattern in (_RCCL, _NCCL) for path in look.paths(pattern)]
    libc = next(look.paths(_LIBC), "")
    glibc = files.elf(libc) if libc else None
    release = newest_version(glibc.versions_defined if glibc else (), "GLIBC_").removeprefix("GLIBC_")
    said = said_versions(facts)
    of_torch = said_versions(replace(facts, environment=()))  # PyTorch ships its own CUDA or ROCm
    return StackFacts(
        architecture=facts.architecture,
        machine=glibc.machine if glibc else "",
        libc="glibc" if release else "musl" if any(map(_MUSL.fullmatch, files.listdir("/lib"))) else "",
        glibc=release,
        glibc_needed=_glibc_needed(files, [*mpis, *fabrics, *plugins]),
        mpis=mpis,
        fabrics=fabrics,
        plugins=plugins,
        cxi_library=look.number(_CXI),
        gpu=GpuStack(
            collectives="RCCL" if next(look.paths(_RCCL), "") else "NCCL" if next(look.paths(_NCCL), "") else "",
            cuda=of_torch.get("cuda", "") or _longest(said.get("cuda", ""), look.number(_CUDART)),
            cuda_compat=_cuda_compat(files),
            rocm=of_torch.get("rocm", "") or said.get("rocm", "") or _rocm(files),
            targets=find_targets(facts.labels, facts.environment),
        ),
        library_path=search.library_path[:-1],
        library_path_known=known,
        others=tuple(others),
        has_bash=facts.has_bash,
        broken=tuple(sorted(files.broken.items())),
        compression=files.compression,
    )


class _Look:
    """Finds libraries in directories, each listed once; those for other architectures only as a last resort."""

    def __init__(self, files: ContainerFiles, directories: Iterable[str], architecture: str) -> None:
        self._files, self._architecture = files, architecture
        self._names = [(directory, files.listdir(directory)) for directory in directories]

    def paths(self, pattern: re.Pattern[str]) -> Iterator[str]:
        """Yield the paths with a matching name, each file once."""
        found = list(self._paths(pattern))
        fitting = [path for path in found if self._is_for_this(path)]
        yield from fitting or found

    def _is_for_this(self, path: str) -> bool:
        elf = self._files.elf(path)
        return elf is None or elf.machine in ("", self._architecture)

    def _paths(self, pattern: re.Pattern[str]) -> Iterator[str]:
        seen: set[str] = set()
        for directory, names in self._names:
            for name in filter(pattern.fullmatch, names):
                path = f"{directory}/{name}"
                real = self._files.real(path)
                if real and real not in seen:
                    seen.add(real)
                    yield path

    def each(self, pattern: re.Pattern[str], make: Callable[..., _Value | None]) -> Iterator[_Value]:
        """Yield the facts of matching ELF files."""
        for path in self.paths(pattern):
            elf = self._files.elf(path)
            value = make(path, posixpath.basename(self._files.real(path)), elf) if elf else None
            if value is not None:
                yield value

    def number(self, pattern: re.Pattern[str]) -> str:
        """Return the version after `.so.` of the first file found, links followed; empty if missing."""
        path = next(self.paths(pattern), "")
        match = _NUMBERED.search(self._files.real(path)) if path else None
        return match[1] if match else ""


def find_directories(files: ContainerFiles, search: Search, facts: ImageFacts) -> list[str]:
    """List the directories to search: the loader's in its order, then usual directories of compiled libraries."""
    cached = (posixpath.dirname(path) for _, path in search.cache)
    own = [directory for pattern in _python_places(facts) for directory in _expand(files, pattern)]
    more = [directory for pattern in _PLACES for directory in _expand(files, pattern)]
    by_real_path: dict[str, str] = {}
    for directory in (*search.library_path, *cached, *search.defaults, *own, *more):
        real = files.real(directory)
        if real:
            by_real_path.setdefault(real, directory)
    return list(by_real_path.values())[:_MOST_DIRECTORIES]


def _python_places(facts: ImageFacts) -> tuple[str, ...]:
    if facts.python is None:
        return ()
    prefix, version = facts.python.prefix, facts.python.version
    sites = [f"{prefix}/lib/python{version}/{kind}-packages" for kind in ("site", "dist")]
    return (f"{prefix}/lib", *(f"{site}/{below}" for site in sites for below in ("torch/lib", "nvidia/*/lib")))


def _expand(files: ContainerFiles, pattern: str) -> Iterator[str]:
    """Yield the directories that match a pattern with at most `*` as path components."""
    before, star, after = pattern.partition("/*")
    if not star:
        yield pattern
        return
    for name in files.listdir(before):
        yield from _expand(files, f"{before}/{name}{after}")


def _providers(files: ContainerFiles, path: str) -> list[str]:
    """List the provider plugins in libfabric's own directory."""
    return files.listdir(f"{posixpath.dirname(files.real(path))}/libfabric")


def _parts_for_fabric(files: ContainerFiles, mpi: Mpi) -> Iterator[str]:
    directory = posixpath.dirname(files.real(mpi.path))
    for place in (directory, f"{directory}/openmpi", f"{directory}/openmpi3"):
        yield from (f"{place}/{name}" for name in files.listdir(place) if _MTL.fullmatch(name))


def _mpi4py(files: ContainerFiles, facts: ImageFacts) -> Iterator[str]:
    if facts.python is None:
        return
    prefix, version = facts.python.prefix, facts.python.version
    for place in (f"{prefix}/lib/python{version}/site-packages", f"{prefix}/lib/python3/dist-packages"):
        yield from (f"{place}/mpi4py/{name}" for name in files.listdir(f"{place}/mpi4py") if _MPI4PY.fullmatch(name))


def _glibc_needed(files: ContainerFiles, found: Sequence[Mpi | Fabric | Plugin]) -> str:
    elves = [elf for fact in found if (elf := files.elf(fact.path)) is not None]
    needed = (version for elf in elves for _, version in elf.versions_needed)
    return newest_version(needed, "GLIBC_").removeprefix("GLIBC_")


def _longest(*versions: str) -> str:
    """Return the most precise version: 12.4 of 12 and 12.4; the first of equally precise ones."""
    return max(versions, key=lambda version: min(len(numbers(version)), 2))


def _cuda_compat(files: ContainerFiles) -> str:
    directories = ("/usr/local/cuda/compat", "/usr/local/cuda/compat/lib", "/usr/local/cuda/compat/lib.real")
    return next((path for place in directories if files.real(path := f"{place}/libcuda.so.1")), "")


def _rocm(files: ContainerFiles) -> str:
    for place in ("/opt/rocm", *(f"/opt/{name}" for name in files.listdir("/opt") if name.startswith("rocm-"))):
        match = re.match(rb"\d[\d.]*", files.read_bytes(f"{place}/.info/version", 64))
        if match:
            return match[0].decode()
    return ""
