from __future__ import annotations

import platform
from pathlib import Path

import pytest

from hpcmod.compat.host_stack import find_injected, read_host, read_libraries
from hpcmod.core.values.facts import architecture_name
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Gpus
from tests.stacks import Stubs, make_host, named, stub


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n", "535.129.03"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06  Release Build  (a@h)\n", "555.42.06"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (b@m)\n", "540.4.0"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module 390.48 Thu Mar 22 00:42:57 PDT 2018\n", "390.48"),
        ("GCC version:  gcc version 12.2.0 (GCC)\n", ""),
        ("", ""),
    ],
)
def test_reads_the_driver_of_nvidia_as_its_file_is_written(tmp_path: Path, line: str, expected: str) -> None:
    host: Stubs = (
        {"/proc/driver/nvidia/version": line + "GCC version:  gcc version 7.5.0 (SUSE Linux)\n"} if line else {}
    )
    assert read_host(make_host(tmp_path, host), root=tmp_path).cuda_driver == expected


def test_missing_facts_stay_unknown(tmp_path: Path) -> None:
    bare = read_host(make_host(tmp_path / "bare", {}), root=tmp_path / "bare")
    assert bare.architecture == architecture_name(platform.machine())
    assert (bare.cuda_driver, bare.has_cxi, bare.cxi_library) == ("", False, "")
    host: Stubs = {
        "/dev/cxi0": "",
        **named("/usr/lib64/libcxi.so.1", stub("libcxi.so.1"), "libcxi.so.1.5.0"),
    }
    found = read_host(make_host(tmp_path / "full", host), root=tmp_path / "full")
    assert (found.has_cxi, found.cxi_library) == (True, "1.5.0")


def test_flags_bring_in_the_libraries_that_apptainer_lists_and_the_host_has(tmp_path: Path) -> None:
    host = {f"/usr/lib64/{name}": stub(name) for name in ("libcuda.so.1", "libdrm.so.2", "libfoo.so.1")}
    libraries = make_host(tmp_path, {**host, "/usr/lib64/libnvidia-ml.so.1": "no library"})

    def names(*flags: str) -> list[str]:
        return [place for place, _ in find_injected(Site("x", gpu=Gpus(runtime_flags=flags)), libraries, root=tmp_path)]

    assert names() == []
    assert names("--nv") == ["/.singularity.d/libs/libcuda.so.1"]
    assert names("--rocm") == ["/.singularity.d/libs/libdrm.so.2"]


def test_the_machines_own_list_comes_before_that_of_the_newest_apptainer(tmp_path: Path) -> None:
    libraries = make_host(tmp_path, {f"/usr/lib64/{name}": stub(name) for name in ("libdrm.so.2", "librccl.so.1")})
    site = Site("x", gpu=Gpus(runtime_flags=("--rocm",)))
    assert [name for _, name in find_injected(site, libraries, root=tmp_path)] == [f"{tmp_path}/usr/lib64/libdrm.so.2"]
    (tmp_path / "etc" / "singularity").mkdir(parents=True)
    (tmp_path / "etc" / "singularity" / "rocmliblist.conf").write_text("# libs\nrocminfo\nlibdrm.so\nlibrccl.so \n")
    found = sorted(name for _, name in find_injected(site, libraries, root=tmp_path))
    assert found == [f"{tmp_path}/usr/lib64/libdrm.so.2", f"{tmp_path}/usr/lib64/librccl.so.1"]


def test_this_very_machine_can_be_read() -> None:
    libraries = read_libraries()
    assert read_host(libraries).architecture
    assert any(name.startswith("libc.so") for name, _ in libraries.search.cache)
