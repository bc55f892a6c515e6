"""A host with network libraries (all stub files), and captures of it."""

from __future__ import annotations

import platform
from pathlib import Path
from unittest.mock import patch

from hpcmod.compat.install_netstack import plan_capture, write_capture
from hpcmod.compat.values.netstack import Capture
from tests.elf_files import elf

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def plant(directory: Path, soname: str, *, release: str = ".0", **more: object) -> Path:
    """Write a library as packages install it: the file, and a symlink named by its soname."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{soname}{release}"
    file.write_bytes(elf(soname, machine=MACHINE, **more))  # type: ignore[arg-type]
    link = directory / soname
    link.unlink(missing_ok=True)
    link.symlink_to(file.name)
    return link


def make_host(top: Path) -> Path:
    """Make a host whose libfabric needs glibc, and libcxi, which only LD_LIBRARY_PATH finds."""
    needs = [("libcxi.so.1", "LIBCXI_1.5"), ("libc.so.6", "GLIBC_2.17"), ("libc.so.6", "GLIBC_2.3.4")]
    place = top / "host"
    plant(place / "lib64", "libfabric.so.1", release=".25.0", needs=needs, defines=["FABRIC_1.0", "FABRIC_1.7"])
    plant(place / "cxi", "libcxi.so.1", release=".5.0", defines=["LIBCXI_1.5"])
    return place


def planned(host: Path, *asked: str, leave_out: tuple[str, ...] = ()) -> Capture:
    env = {"LD_LIBRARY_PATH": f"{host}/cxi:{host}/lib64"}
    return plan_capture(asked or ["libfabric.so.1"], env, leave_out=leave_out)


def written(plan: Capture, out: Path, name: str = "1") -> tuple[Path, bool]:
    """Capture libraries into a directory of that name."""
    with patch("hpcmod.compat.install_netstack._name_by_time", lambda _: name):
        return write_capture(plan, out, tell=print)
