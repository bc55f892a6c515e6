"""Images and hosts that contain only stub libraries, with chosen names, versions and dependencies.

`make_stack` writes a SIF with a tree of stubs, `make_host` a directory that acts as a machine's root. Our own writers
make the files, so only Python is needed.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from hpcmod.compat.host_stack import HostLibraries
from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.compat.values.loader import Search
from hpcmod.core.values.facts import architecture_name
from tests.corpus import Link, make_sif
from tests.elf_files import elf
from tests.squashfs_trees import Entry, directory, write_squashfs

ARCH = architecture_name(platform.machine())
LOADER = {"amd64": "/lib64/ld-linux-x86-64.so.2", "arm64": "/lib/ld-linux-aarch64.so.1"}[ARCH]

C = ("libc.so.6", "GLIBC_2.17")
FABRIC_VERSIONS = [f"FABRIC_1.{minor}" for minor in range(10)]
GLIBC_VERSIONS = ["GLIBC_2.17", "GLIBC_2.28", "GLIBC_2.31", "GLIBC_2.34", "GLIBC_2.36", "GLIBC_2.38"]

Stubs = Mapping[str, "bytes | str | Link"]


def stub(soname: str, *needs: str | tuple[str, str], **more: object) -> bytes:
    """Make a library that needs others: by name, or by name and version."""
    names = [need for need in needs if isinstance(need, str)]
    pairs = [need for need in needs if isinstance(need, tuple)]
    return elf(soname, needed=names, needs=[*pairs, C], machine=ARCH, **more)  # type: ignore[arg-type]


def named(path: str, content: bytes, real: str = "") -> dict[str, bytes | str | Link]:
    """Return a library at `path`; with `real`, its file has that name and `path` is a symlink to it."""
    if not real:
        return {path: content}
    return {path: Link(real), f"{path.rpartition('/')[0]}/{real}": content}


def glibc(upto: str = "2.36") -> Stubs:
    """Return the loader, and a libc that defines versions up to `upto`."""
    defined = GLIBC_VERSIONS[: GLIBC_VERSIONS.index(f"GLIBC_{upto}") + 1]
    libc = elf("libc.so.6", needed=[LOADER.rpartition("/")[2]], defines=defined, machine=ARCH)
    return {"/usr/lib64/libc.so.6": libc, LOADER: elf(LOADER.rpartition("/")[2], machine=ARCH)}


def fabric(number: str, *needs: str | tuple[str, str], upto: int = 6, directory: str = "/usr/lib64") -> Stubs:
    """Return a libfabric with a libtool version, e.g. 20.0 for 1.17.0, that defines FABRIC_1.0 to FABRIC_1.`upto`."""
    content = stub("libfabric.so.1", *needs, defines=FABRIC_VERSIONS[: upto + 1])
    return named(f"{directory}/libfabric.so.1", content, f"libfabric.so.1.{number}")


def mpich(version: str = "12.3.1", *needs: str | tuple[str, str], directory: str = "/usr/lib64") -> Stubs:
    return named(
        f"{directory}/libmpi.so.12", stub("libmpi.so.12", *(needs or ("libfabric.so.1",))), f"libmpi.so.{version}"
    )


def open_mpi(version: str = "40.30.4", *needs: str, directory: str = "/usr/lib64", orte: bool = True) -> Stubs:
    parts = ["libopen-pal.so.40", *(["libopen-rte.so.40"] if orte else [])]
    return {
        **named(f"{directory}/libmpi.so.40", stub("libmpi.so.40", *parts, *needs), f"libmpi.so.{version}"),
        **{f"{directory}/{part}": stub(part) for part in parts},
    }


def plugin(
    version: str = "FABRIC_1.3", *needs: str | tuple[str, str], path: str = "/usr/lib64/libnccl-net.so", **more: object
) -> Stubs:
    """Return an aws-ofi-nccl that needs this symbol version of libfabric."""
    return {path: stub(path.rpartition("/")[2], ("libfabric.so.1", version), *needs, **more)}


def make_stack(path: Path, files: Stubs, *, architecture: str = ARCH, compression: str = "none") -> Path:
    """Write a SIF that contains these files, and bash."""
    tree = {b"": directory()}
    for name, content in sorted({"/bin/bash": "", **files}.items()):
        place = name.lstrip("/").encode()
        for at in [index for index, byte in enumerate(place) if byte == ord("/")]:
            tree.setdefault(place[:at], directory())
        if isinstance(content, Link):
            tree[place] = Entry("symlink", 0o777, target=content.target.encode())
        else:
            tree[place] = Entry(content=content.encode() if isinstance(content, str) else content, mode=0o755)
    body = write_squashfs(path.with_suffix(".body"), tree, compression=compression, chunk=1 << 20).read_bytes()
    path.with_suffix(".body").unlink()
    return make_sif(path, body, architecture=architecture)


def make_host(root: Path, files: Stubs) -> HostLibraries:
    """Write a machine's files below a directory; its loader finds libraries in /usr/lib64."""
    for name, content in files.items():
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            place.symlink_to(content.target)
        else:
            place.write_bytes(content.encode() if isinstance(content, str) else content)
    seen = ContainerFiles(None, [("/", str(root))])
    cache = tuple((name, f"{root}/usr/lib64/{name}") for name in seen.listdir("/usr/lib64"))
    return HostLibraries(ContainerFiles(None, [("/", "/")]), Search(cache=cache, defaults=()))
