"""Facts about MPI libraries, libfabric and NCCL plugins, from their ELF files, and the set of them in an image.

Pure: file names and ELF facts in, values out. An empty string means not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from hpcmod.compat.values.elf import ElfFile
from hpcmod.core.values.json_form import SPLICED

MPICH, OPEN_MPI, STANDARD = "MPICH", "Open MPI", "MPI ABI"
"""Families within which one library can replace another: MPICH (Cray MPICH, Intel MPI, MVAPICH), Open MPI, and
the standard ABI of MPI 5.0."""

CUDA, ROCM = "CUDA", "ROCm"

MPI, MPI4PY, PLUGIN, FABRIC, PART, DRIVER, COLLECTIVES = (
    *("MPI", "mpi4py", "network plugin", "libfabric", "Open MPI's libfabric component"),
    *("driver library", "collectives library"),
)
"""Kinds of files that are inspected."""

_FABRIC_RELEASES = {
    **dict(zip(range(18, 26), ("1.15", "1.16", "1.17", "1.18", "1.19", "1.20", "1.21", "1.22"))),
    **dict(zip(range(26, 33), ("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6"))),
}
"""Release by the first number after libfabric.so.1. From the libtool numbers of all tags of ofiwg/libfabric, 1.15 to
2.6 (found in November 2026)."""

UCX, VERBS = "UCX", "InfiniBand verbs"

_LIBTOOL = re.compile(r"\.so\.(\d+(?:\.\d+)*)$")
_GPU_OF = {"libcudart": CUDA, "libcuda": CUDA, "libamdhip64": ROCM, "libhsa-runtime64": ROCM}
_TRANSPORT_OF = {"libfabric": "libfabric", "libucp": UCX, "libibverbs": VERBS}


@dataclass(frozen=True)
class Mpi:
    """An MPI library."""

    path: str
    soname: str
    family: str
    """One of the three families above."""
    version: str = ""
    """libtool's version, from the file name: 12.3.1 for libmpi.so.12.3.1; not the MPI's own version."""
    has_orte: bool = False
    """For Open MPI: whether it needs libopen-rte, as releases before 5.0 do."""


@dataclass(frozen=True)
class Fabric:
    """A libfabric."""

    path: str
    file: str = ""
    """File name with links resolved, e.g. libfabric.so.1.25.0."""
    release: str = ""
    newest: str = ""
    """The newest of its symbol versions, e.g. FABRIC_1.7."""
    cxi: bool = False
    """Whether it contains the Slingshot provider, or has it in its provider directory."""


@dataclass(frozen=True)
class Plugin:
    """A network plugin of NCCL or RCCL."""

    path: str
    transport: str = ""
    """Transport: libfabric, UCX, InfiniBand verbs."""
    gpu: str = ""
    """CUDA or ROCm, if linked with either."""
    needs: str = ""
    """The newest libfabric symbol version it needs, e.g. FABRIC_1.8."""


@dataclass(frozen=True)
class GpuStack:
    """What an image has for GPUs."""

    collectives: str = ""
    """NCCL or RCCL, if present."""
    cuda: str = ""
    """Release of the CUDA runtime, e.g. 12.4; 12 if only the major release is known."""
    cuda_compat: str = ""
    """Path of a libcuda from NVIDIA's forward compatibility package."""
    rocm: str = ""
    targets: tuple[str, ...] = ()
    """Micro-architectures that it says it is built for, e.g. gfx90a, sm_90."""


_NO_GPU = GpuStack()


@dataclass(frozen=True)
class StackFacts:
    """Everything in an image that has to fit the machine. Lists are in the loader's order: the first entry is used."""

    architecture: str = ""
    """GOARCH name from the image's header."""
    machine: str = ""
    """GOARCH name that its glibc is built for."""
    libc: str = ""
    """glibc or musl."""
    glibc: str = ""
    """Release, from its newest symbol version, e.g. 2.36."""
    glibc_needed: str = ""
    """The release that its MPI, libfabric and plugins need."""
    mpis: tuple[Mpi, ...] = ()
    fabrics: tuple[Fabric, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    cxi_library: str = ""
    """libtool's version of libcxi, e.g. 1.5.0."""
    gpu: GpuStack = field(default=_NO_GPU, metadata=SPLICED)
    library_path: tuple[str, ...] = ()
    """LD_LIBRARY_PATH as set by the image's own scripts."""
    library_path_known: bool = True
    """False where a script computes it when the container starts."""
    others: tuple[tuple[str, str], ...] = ()
    """Other files that use MPI or libfabric: kind and path."""
    has_bash: bool = True
    """Whether it has /bin/bash."""
    broken: tuple[tuple[str, str], ...] = ()
    """Inspected files that are not ELF, or damaged: path and error."""
    compression: str = ""
    """Compressor of its file system: gzip, zstd, xz or lz4."""

    @property
    def mpi(self) -> Mpi | None:
        """Return the MPI that programs get."""
        return next(iter(self.mpis), None)

    @property
    def fabric(self) -> Fabric | None:
        """Return the libfabric that is found first."""
        return next(iter(self.fabrics), None)


def make_mpi(path: str, file: str, elf: ElfFile) -> Mpi | None:
    """Return the facts of an MPI library from its path, its file name with links resolved, and its ELF data."""
    soname = elf.soname or path.rpartition("/")[2]
    needs = " ".join(elf.needed)
    if soname.startswith("libmpi_abi.so."):
        return Mpi(path, soname, STANDARD, _libtool(file))
    if "libopen-pal" in needs or re.match(r"libmpi\.so\.(?!12\b)\d\d", soname):
        return Mpi(path, soname, OPEN_MPI, _libtool(file), "libopen-rte" in needs)
    if re.match(r"lib(?:mpi|mpich|mpi_\w+)\.so\.(?:0|1[02])$", soname):
        return Mpi(path, soname, MPICH, _libtool(file))
    return None


def make_fabric(path: str, file: str, elf: ElfFile, beside: Iterable[str] = ()) -> Fabric:
    """Return the facts of a libfabric; `beside` lists the names in the directory from which it loads providers."""
    cxi = any(name.startswith("libcxi.so") for name in elf.needed) or "libcxi-fi.so" in set(beside)
    return Fabric(path, file, _fabric_release(file), newest_version(elf.versions_defined, "FABRIC_"), cxi)


def make_plugin(path: str, elf: ElfFile) -> Plugin:
    """Return the facts of a plugin, from the libraries it needs."""
    stems = [name.partition(".so")[0] for name in elf.needed]
    needs = newest_version((version for _, version in elf.versions_needed), "FABRIC_")
    return Plugin(path, _first(_TRANSPORT_OF, stems), _first(_GPU_OF, stems), needs)


def newest_version(versions: Iterable[str], prefix: str) -> str:
    """Return the newest version that consists of a prefix and numbers; empty if there is none."""
    fitting = [version for version in versions if re.fullmatch(re.escape(prefix) + r"\d+(\.\d+)*", version)]
    return max(fitting, key=lambda version: numbers(version[len(prefix) :]), default="")


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, for comparison: 6.2.4-66 is (6, 2, 4)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def _libtool(file: str) -> str:
    match = _LIBTOOL.search(file)
    return match[1] if match else ""


def _fabric_release(file: str) -> str:
    _, *rest = numbers(_libtool(file)) or (0,)
    if len(rest) != 2 or rest[0] not in _FABRIC_RELEASES:
        return ""
    return f"{_FABRIC_RELEASES[rest[0]]}.{rest[1]}"


def _first(table: dict[str, str], stems: list[str]) -> str:
    return next((what for stem, what in table.items() if stem in stems), "")
