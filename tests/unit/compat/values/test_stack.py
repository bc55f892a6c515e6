from __future__ import annotations

import pytest

from hpcmod.compat.values.elf import ElfFile
from hpcmod.compat.values.stack import (
    CUDA,
    MPICH,
    OPEN_MPI,
    ROCM,
    STANDARD,
    make_fabric,
    make_mpi,
    make_plugin,
    newest_version,
    numbers,
)


def elf(
    soname: str = "", *needed: str, needs: tuple[tuple[str, str], ...] = (), defines: tuple[str, ...] = ()
) -> ElfFile:
    return ElfFile("amd64", 64, soname, needed, versions_needed=needs, versions_defined=defines)


@pytest.mark.parametrize(
    ("file", "needed", "family", "version"),
    [
        ("libmpi.so.12.3.1", (), MPICH, "12.3.1"),
        ("libmpi.so.12", (), MPICH, "12"),
        ("libmpich.so.12.2.1", (), MPICH, "12.2.1"),
        ("libmpi_cray.so.12.0.0", (), MPICH, "12.0.0"),
        ("libmpi.so.40.30.4", ("libopen-rte.so.40", "libopen-pal.so.40"), OPEN_MPI, "40.30.4"),
        ("libmpi.so.40.40.8", ("libopen-pal.so.80",), OPEN_MPI, "40.40.8"),
        ("libmpi.so.20.10.1", (), OPEN_MPI, "20.10.1"),
        ("libmpi.so.12.0.2", ("libopen-rte.so.12", "libopen-pal.so.13"), OPEN_MPI, "12.0.2"),
        ("libmpi_abi.so.0.0.1", (), STANDARD, "0.0.1"),
    ],
)
def test_tells_the_families_of_mpi_apart(file: str, needed: tuple[str, ...], family: str, version: str) -> None:
    name, _, number = file.partition(".so.")
    soname = f"{name}.so.{number.partition('.')[0]}"
    found = make_mpi(f"/usr/lib64/{soname}", file, elf(soname, *needed))
    assert found is not None
    assert (found.family, found.version, found.soname) == (family, version, soname)
    assert found.has_orte == any(name.startswith("libopen-rte") for name in needed)


def test_an_unknown_mpi_gives_none() -> None:
    assert make_mpi("/x/libmpi.so.7", "libmpi.so.7", elf("libmpi.so.7")) is None


@pytest.mark.parametrize(
    ("number", "release"),
    [
        *(("18.2", "1.15.2"), ("19.1", "1.16.1"), ("20.0", "1.17.0"), ("21.1", "1.18.1"), ("22.1", "1.19.1")),
        *(("23.1", "1.20.1"), ("24.1", "1.21.1"), ("25.0", "1.22.0"), ("26.0", "2.0.0"), ("27.0", "2.1.0")),
        *(("28.0", "2.2.0"), ("29.1", "2.3.1"), ("30.0", "2.4.0"), ("31.1", "2.5.1"), ("32.0", "2.6.0")),
        *(("99.0", ""), ("18", ""), ("1.18.2", "")),
    ],
)
def test_the_name_of_its_file_tells_the_release_of_libfabric(number: str, release: str) -> None:
    found = make_fabric("/l/libfabric.so.1", f"libfabric.so.1.{number}", elf("libfabric.so.1"))
    assert found.release == release
    assert make_fabric("/l/libfabric.so.1", "libfabric.so.1", elf("libfabric.so.1")).release == ""


def test_the_provider_for_slingshot_is_in_libfabric_or_next_to_it() -> None:
    assert make_fabric("/l", "l", elf("libfabric.so.1", "libc.so.6", "libcxi.so.1")).cxi
    assert make_fabric("/l", "l", elf("libfabric.so.1"), ["libcxi-fi.so", "libtcp-fi.so"]).cxi
    assert not make_fabric("/l", "l", elf("libfabric.so.1", "libefa.so.1"), ["libefa-fi.so"]).cxi


def test_the_newest_version_is_so_by_number() -> None:
    defines = ("libfabric.so.1", "FABRIC_1.9", "FABRIC_1.10", "FABRIC_1.2", "FABRIC_PRIVATE", "OTHER_9")
    assert make_fabric("/l", "l", elf("libfabric.so.1", defines=defines)).newest == "FABRIC_1.10"
    assert newest_version(["GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_PRIVATE"], "GLIBC_") == "GLIBC_2.17"
    assert newest_version([], "GLIBC_") == ""


@pytest.mark.parametrize(
    ("needed", "transport", "gpu"),
    [
        (("libfabric.so.1", "libcudart.so.12"), "libfabric", CUDA),
        (("libfabric.so.1", "libamdhip64.so.6"), "libfabric", ROCM),
        (("libfabric.so.1", "libhwloc.so.15"), "libfabric", ""),
        (("libucp.so.0", "libibverbs.so.1"), "UCX", ""),
        (("libibverbs.so.1",), "InfiniBand verbs", ""),
        (("libc.so.6",), "", ""),
    ],
)
def test_a_plugin_is_recognized_by_its_dependencies(needed: tuple[str, ...], transport: str, gpu: str) -> None:
    needs = (("libfabric.so.1", "FABRIC_1.0"), ("libfabric.so.1", "FABRIC_1.8"), ("libc.so.6", "GLIBC_2.34"))
    found = make_plugin("/l/libnccl-net.so", elf("libnccl-net.so", *needed, needs=needs))
    assert (found.transport, found.gpu, found.needs) == (transport, gpu, "FABRIC_1.8")


@pytest.mark.parametrize(("text", "expected"), [("6.2.4-66", (6, 2, 4)), ("12", (12,)), ("", ()), ("x1", ())])
def test_a_version_is_its_numbers(text: str, expected: tuple[int, ...]) -> None:
    assert numbers(text) == expected
