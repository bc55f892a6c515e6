"""What containers on this machine depend on: its libraries, as its loader finds them, processor, drivers, Slingshot."""

from __future__ import annotations

import os
import platform
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.compat.inspect.library_path import INJECTED
from hpcmod.compat.values.ld_cache import parse_ld_cache
from hpcmod.compat.values.loader import Files, Search, find_library
from hpcmod.compat.values.verdict import HostFacts
from hpcmod.core.values.facts import architecture_name
from hpcmod.machine import read_gpu_targets
from hpcmod.machine.values.site import Site

_CACHE = "/etc/ld.so.cache"
_NVIDIA = "proc/driver/nvidia/version"
_CXI = ("sys/class/cxi", "dev/cxi0")

NVIDIA_LIBRARIES = ("libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so", "libnvidia-nvvm.so", "libOpenCL.so")
"""The compute libraries that --nv adds (etc/nvliblist.conf of Apptainer 1.4.5), without those for graphics."""

ROCM_LIBRARIES = (
    *("libCXLActivityLogger.so", "libhc_am.so", "libmcwamp.so", "libmcwamp_cpu.so", "libmcwamp_hsa.so", "libdrm.so"),
    *("libdrm_amdgpu.so", "libnuma.so", "libpci.so", "librocr_debug_agent64.so", "libamdcomgr64.so"),
    *("libamdocl64.so", "libcltrace.so", "libOpenCL.so"),
)
"""Libraries that --rocm adds (etc/rocmliblist.conf of Apptainer 1.4.5); before its pull request 2606 of 2024 the list
was longer, with RCCL and rocBLAS, so the machine's own list is read first."""

_ROCM_LISTS = ("etc/apptainer/rocmliblist.conf", "etc/singularity/rocmliblist.conf")


@dataclass(frozen=True)
class HostLibraries:
    """The host's files, and where its loader searches; tests pass others."""

    files: Files
    search: Search


def files_of_host() -> ContainerFiles:
    """Return the files of this machine, as if all of them were bound."""
    return ContainerFiles(None, [("/", "/")])


def read_search(environ: Mapping[str, str]) -> Search:
    """Return where this machine's loader searches.

    `environ`: LD_LIBRARY_PATH is taken from it.

    Notes
    -----
    The default directories are compiled into the loader: on Debian and Ubuntu they are named after the architecture,
    elsewhere lib64. A file of another architecture found there is skipped.
    """
    cache, triplet = Path(_CACHE), f"{platform.machine()}-linux-gnu"
    is_multiarch = Path("/usr/lib", triplet).is_dir()
    named = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if is_multiarch else ("/lib64", "/usr/lib64")
    return Search(
        # without empty entries, which would mean the current directory
        library_path=tuple(filter(None, re.split("[:;]", environ.get("LD_LIBRARY_PATH", "")))),
        cache=parse_ld_cache(cache.read_bytes()) if cache.exists() else (),
        defaults=(*named, "/lib", "/usr/lib"),
        lib=f"lib/{triplet}" if is_multiarch else "lib64",
        platform=platform.machine(),
    )


def read_libraries() -> HostLibraries:
    """Return those of this machine; LD_LIBRARY_PATH is ignored, because containers do not get the host's."""
    return HostLibraries(files_of_host(), read_search({}))


def read_host(libraries: HostLibraries, *, root: Path = Path("/")) -> HostFacts:
    """Return the facts of this machine that can be read from files; others stay unknown.

    `root`: Directory that contains /proc, /sys and /dev.
    """
    return HostFacts(
        architecture=architecture_name(platform.machine()),
        cuda_driver=_nvidia_driver(_read_text(root / _NVIDIA)),
        gpu_targets=read_gpu_targets(root),
        has_cxi=any((root / place).exists() for place in _CXI),
        cxi_library=_cxi_library(libraries),
    )


def find_injected(site: Site, libraries: HostLibraries, *, root: Path = Path("/")) -> Iterator[tuple[str, str]]:
    """Yield what the runtime's flags add to containers here: path in the container, and path on the host."""
    by_flag = {"--nv": NVIDIA_LIBRARIES, "--nvccli": NVIDIA_LIBRARIES, "--rocm": _rocm_libraries(root)}
    stems = {stem for flag in site.gpu.runtime_flags for stem in by_flag.get(flag, ())}
    for name, path in libraries.search.cache:
        if f"{name.partition('.so')[0]}.so" in stems and libraries.files.elf(path) is not None:
            yield f"{INJECTED}/{name}", path


def _rocm_libraries(root: Path) -> tuple[str, ...]:
    text = next(filter(None, (_read_text(root / place) for place in _ROCM_LISTS)), "")
    listed = tuple(line.strip() for line in text.splitlines() if line.strip().endswith(".so"))
    return listed or ROCM_LIBRARIES


def _nvidia_driver(text: str) -> str:
    """Return the release in `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06  Release Build ...`."""
    match = re.search(r"^NVRM version:.*?\s(\d{2,}\.\d+(?:\.\d+)?)\s", text, re.MULTILINE)
    return match[1] if match else ""


def _cxi_library(libraries: HostLibraries) -> str:
    path = find_library("libcxi.so.1", libraries.files, libraries.search)
    name = posixpath.basename(libraries.files.real(path)) if path else ""
    match = re.search(r"\.so\.(\d[\d.]*)$", name)
    return match[1] if match else ""


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return os.read(file.fileno(), 4096).decode(errors="replace")
    except OSError:
        return ""
