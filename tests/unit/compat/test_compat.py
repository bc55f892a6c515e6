"""Verdicts on images for machines: each case has an image and a machine made of stubs, and the expected findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hpcmod.compat.compat import make_case
from hpcmod.compat.values.rules import RULES
from hpcmod.compat.values.verdict import Verdict, judge
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN, Finding, worst_level
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import IN_CONTAINER, Launcher, Site
from hpcmod.machine.values.tables import Gpus, Images, Netstack, Network, SiteBinds
from tests.corpus import Link
from tests.elf_files import elf
from tests.programs import make_program
from tests.stacks import ARCH, C, Stubs, fabric, glibc, make_host, make_stack, mpich, named, open_mpi, plugin, stub

OTHER = {"amd64": "arm64", "arm64": "amd64"}[ARCH]
CXI = "libcxi.so.1"
NET = "/netstack"
MPI4PY_DIRECTORY = "/usr/lib/python3.11/site-packages/mpi4py"
TRIPLET = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[ARCH]
MUSL: Stubs = {"/lib/ld-musl-x86_64.so.1": b"", "/lib/libc.so": b""}
ENV = "/.singularity.d/env/90-environment.sh"
NVRM = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Thu Jul 11 12:00:00 UTC 2024\nGCC version:  gcc\n"


@dataclass(frozen=True)
class Scene:
    """One case."""

    name: str
    image: Stubs
    says: tuple[tuple[str, str, str], ...]
    """Level, rule, and an excerpt of the text of each expected finding."""
    host: Stubs = field(default_factory=dict)
    site: Mapping[str, object] = field(default_factory=dict)
    binds: tuple[str, ...] = ()
    """Directories of the host that are bound, each to the same path."""
    swap: bool = False
    """Whether the profile's captured directory is NET of the host."""
    architecture: str = ARCH
    packed: str = "none"
    runtime: str = ""
    """What the container runtime says of its version; empty: there is none."""
    silent: tuple[str, ...] = ()
    """Rules that must report only ok."""

    @property
    def level(self) -> str:
        """Return the level of the verdict: the worst of those expected."""
        return worst_level(Finding(*said) for said in self.says)


def scene(name: str, image: Stubs, *says: tuple[str, str, str], **more: Any) -> Scene:
    return Scene(name, image, says, **more)


def host_driver(version: str) -> Stubs:
    return {"/proc/driver/nvidia/version": NVRM.format(version)}


def amd_gpu(version: int) -> Stubs:
    place = "/sys/class/kfd/kfd/topology/nodes"
    return {
        f"{place}/0/properties": "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n",
        f"{place}/1/properties": f"cpu_cores_count 0\nsimd_count 440\ngfx_target_version {version}\n",
    }


def mpi4py(variant: str, needs: str) -> Stubs:
    return {f"{MPI4PY_DIRECTORY}/MPI.{variant}.cpython-311-x.so": stub("", needs)}


def libcxi(release: str) -> Stubs:
    return named(f"/usr/lib64/{CXI}", stub(CXI), f"libcxi.so.{release}")


PYTHON: Stubs = {"/usr/bin/python3.11": "", "/usr/bin/python3": Link("python3.11")}
SLINGSHOT: Mapping[str, object] = {"network": Network(("hsn0", "hsn1"))}
NVIDIA: Mapping[str, object] = {"gpu": Gpus("nvidia", runtime_flags=("--nv",))}
AMD: Mapping[str, object] = {"gpu": Gpus("amd")}
BARE = glibc()
VERBS = {
    **BARE,
    "/usr/lib64/libibverbs.so.1": stub("libibverbs.so.1"),
    "/usr/lib64/libnccl-net.so": stub("libnccl-net.so", "libibverbs.so.1"),
}
SWAPPABLE = {**BARE, **fabric("22.1"), **plugin("FABRIC_1.3"), **mpich()}
CUDA_12 = {**BARE, **named("/usr/lib64/libcudart.so.12", stub("libcudart.so.12"), "libcudart.so.12.4.127")}
DRIVER = {"/usr/lib64/libcuda.so.1": stub("libcuda.so.1", ("libc.so.6", "GLIBC_2.34")), **host_driver("550.54.15")}
CRAY = "/opt/cray/libfabric/1.15.2.0/lib64"
STUBS, COMPAT = "/usr/local/cuda/lib64/stubs", "/usr/local/cuda/compat"
DRM = "libdrm_amdgpu.so.1"
RCCL = {**BARE, "/usr/lib/librccl.so.1": stub("librccl.so.1", DRM)}
NEW_MPICH = {**BARE, **fabric("20.0"), **mpich("12.3.1", ("libfabric.so.1", "FABRIC_1.8"))}
NEW_NCCL = {**BARE, "/usr/lib64/libnccl.so.2": stub("libnccl.so.2", ("libc.so.6", "GLIBC_2.38"))}
WITH_CXI = {**BARE, **fabric("28.0", CXI, upto=8), **libcxi("1.5.0"), **plugin()}
ROCM_ENV = {ENV: "export ROCM_VERSION=6.2.4\n"}
HOST_FABRIC, HOST_MPICH = fabric("25.0", upto=7, directory=NET), mpich("12.3.1", C, directory=NET)
HOST_CXI = {**fabric("25.0", CXI, upto=7, directory=NET), f"{NET}/{CXI}": stub(CXI)}

swapped = partial(scene, swap=True)
slingshot, nvidia, amd = (partial(scene, site=site) for site in (SLINGSHOT, NVIDIA, AMD))
rocm = partial(scene, host={f"/usr/lib64/{DRM}": stub(DRM)}, site={"gpu": Gpus("amd", runtime_flags=("--rocm",))})
under_pmi2 = partial(scene, site={"launcher": Launcher(srun=("--mpi=pmi2",))})

SCENES = (
    # architecture
    scene("an image with nothing in it", BARE, (OK, "architecture", f"for {ARCH}")),
    scene("an image for another processor", BARE, (FAIL, "architecture", OTHER), architecture=OTHER),
    scene(
        "an image whose header is for this machine, and whose libraries are not",
        {"/usr/lib64/libc.so.6": elf("libc.so.6", machine=OTHER, defines=["GLIBC_2.36"])},
        (FAIL, "architecture", f"the image is for {ARCH} and contains libraries for {OTHER}"),
    ),
    scene(
        "libraries for programs of 32 bits besides",
        {
            **{
                path: elf(path.rpartition("/")[2], machine="386", bits=32)
                for path in ("/a/libc.so.6", "/a/libmpi.so.12")
            },
            **SWAPPABLE,
            ENV: "export LD_LIBRARY_PATH=/a\n",
        },
        (OK, "libraries", "MPI /usr/lib64/libmpi.so.12 finds all the libraries it needs"),
    ),
    # libraries of the image
    scene(
        "an image without a cache, whose libraries are in /lib alone, as distroless ones are",
        {path.replace("/usr/lib64", f"/lib/{TRIPLET}"): content for path, content in SWAPPABLE.items()},
        (OK, "libraries", f"MPI /lib/{TRIPLET}/libmpi.so.12 finds all the libraries it needs"),
        silent=("libraries", "libc"),
    ),
    scene(
        "a directory named after the machine in a distribution that does not use such",
        {**SWAPPABLE, f"/usr/lib/{TRIPLET}/more/file": b""},
        (OK, "libraries", "MPI /usr/lib64/libmpi.so.12 finds all the libraries it needs"),
        silent=("libraries",),
    ),
    scene(
        "a library that is cut off",
        {**BARE, "/usr/lib64/libmpi.so.12": elf("libmpi.so.12", machine=ARCH)[:40]},
        (UNKNOWN, "libraries", "/usr/lib64/libmpi.so.12 cannot be read"),
    ),
    slingshot(
        "a plugin, and two libfabrics where the loader does not look: which one it gets is not known",
        {
            **BARE,
            **plugin("FABRIC_1.8"),
            **fabric("18.2", directory="/opt/a/lib"),
            **fabric("30.0", directory="/opt/b"),
        },
        (UNKNOWN, "libraries", "which the loader does not search"),
        (UNKNOWN, "slingshot", "may not be able to use"),
    ),
    scene("a whole stack", SWAPPABLE, (OK, "libraries", "network plugin"), (OK, "mpi-family", "MPICH")),
    slingshot(
        "a plugin without its libfabric",
        {**BARE, **plugin()},
        (FAIL, "libraries", "does not find libfabric.so.1, which /usr/lib64/libnccl-net.so needs"),
    ),
    scene(
        "the same, where NCCL has other ways", {**BARE, **plugin()}, (WARN, "libraries", "does not find libfabric.so.1")
    ),
    scene("an MPI without its libfabric", {**BARE, **mpich()}, (FAIL, "libraries", "MPI")),
    scene(
        "a libfabric that nobody uses, and that lacks a library",
        {**BARE, **fabric("20.0", "libefa.so.1")},
        (WARN, "libraries", "libefa.so.1"),
    ),
    slingshot(
        "a library that is missing two steps away",
        {
            **BARE,
            **fabric("20.0", "libibverbs.so.1"),
            **named("/usr/lib64/libibverbs.so.1", stub("libibverbs.so.1", "libnl-3.so.200")),
            **plugin(),
        },
        (FAIL, "libraries", "libnl-3.so.200, which /usr/lib64/libibverbs.so.1 needs"),
    ),
    scene(
        "a library that only the image's LD_LIBRARY_PATH leads to",
        {
            **BARE,
            **fabric("20.0", directory="/srv/ofi"),
            **plugin(),
            ENV: 'export LD_LIBRARY_PATH="/srv/ofi:$LD_LIBRARY_PATH"\n',
        },
    ),
    scene(
        "a library that only a runpath leads to",
        {**BARE, **fabric("20.0", directory="/srv/ofi/lib"), **plugin(runpath="$ORIGIN/../../srv/ofi/lib")},
    ),
    scene(
        "a library that only an LD_LIBRARY_PATH computed at start can lead to",
        {**BARE, **plugin(), ENV: 'export LD_LIBRARY_PATH="$(find-it):$LD_LIBRARY_PATH"\n'},
        (WARN, "libraries", "as far as is known"),
    ),
    scene(
        "a library that lies where the loader does not look",
        {**BARE, **fabric("20.0", directory="/opt/ofi/lib"), **plugin()},
        (UNKNOWN, "libraries", "/opt/ofi/lib/libfabric.so.1, which the loader does not search"),
    ),
    scene(
        "a library of another processor in the way",
        {
            **BARE,
            **plugin(),
            "/usr/lib64/libfabric.so.1": elf("libfabric.so.1", machine=OTHER),
            **fabric("20.0", directory="/usr/lib"),
        },
    ),
    scene("musl", MUSL, (UNKNOWN, "libc", "musl")),
    scene(
        "musl, which knows no versions of symbols",
        {**MUSL, **mpich("12.3.1", ("libfabric.so.1", "FABRIC_1.8"), directory="/usr/lib")},
        (UNKNOWN, "libc", "libraries are not checked"),
    ),
    scene("no bash", {**BARE, "/bin/bash": Link("busybox")}, (WARN, "bash", "its commands can be started")),
    scene("neither glibc nor musl", {"/bin/sh": b""}, (UNKNOWN, "libc", "no C library")),
    scene(
        "two plugins of one name, of which NCCL gets the first",
        {**BARE, **fabric("20.0"), **plugin("FABRIC_1.3"), **plugin("FABRIC_1.9", path="/opt/aws/lib/libnccl-net.so")},
        (OK, "libraries", "/usr/lib64/libnccl-net.so"),
    ),
    # symbol versions within the image
    slingshot(
        "a plugin built against a newer libfabric than the image's",
        {**BARE, **fabric("20.0"), **plugin("FABRIC_1.8")},
        (
            FAIL,
            "versions",
            "/usr/lib64/libfabric.so.1 does not define FABRIC_1.8, which /usr/lib64/libnccl-net.so needs",
        ),
    ),
    scene(
        "an MPI built against a newer libfabric than the image's",
        NEW_MPICH,
        (FAIL, "versions", "FABRIC_1.8, which /usr/lib64/libmpi.so.12 needs"),
    ),
    scene("a plugin built against an older one", {**BARE, **fabric("30.0", upto=8), **plugin("FABRIC_1.3")}),
    scene(
        "a libfabric without any versions",
        {**BARE, "/usr/lib64/libfabric.so.1": stub("libfabric.so.1"), **plugin("FABRIC_1.8")},
    ),
    scene(
        "libraries copied in from a newer distribution",
        {**glibc("2.31"), **fabric("27.0", ("libc.so.6", "GLIBC_2.38"), upto=8), **mpich()},
        (FAIL, "versions", "GLIBC_2.38"),
        (FAIL, "versions", "glibc 2.31 is too old for its library"),
    ),
    scene(
        "a libfabric that nobody uses, and that wants a newer glibc",
        {**glibc("2.31"), **fabric("27.0", ("libc.so.6", "GLIBC_2.38"))},
        (WARN, "versions", "GLIBC_2.38"),
    ),
    scene(
        "the same for a program's MPI, where the image computes an LD_LIBRARY_PATH that may lead to another",
        {**NEW_MPICH, ENV: 'export LD_LIBRARY_PATH="$(find-it):$LD_LIBRARY_PATH"\n'},
        (WARN, "versions", "as far as is known"),
    ),
    scene(
        "NCCL that wants a newer glibc, and another that does not",
        {**NEW_NCCL, "/opt/nccl/lib/libnccl.so.2": stub("libnccl.so.2")},
        (WARN, "versions", "GLIBC_2.38"),
    ),
    scene("NCCL that wants a newer glibc", NEW_NCCL, (FAIL, "versions", "GLIBC_2.38")),
    # captured libraries of the host
    swapped(
        "swap: a newer libfabric of the host",
        SWAPPABLE,
        (OK, "swap", "the host's libfabric 1.22.0 in place of 1.19.1"),
        host=HOST_FABRIC,
    ),
    swapped(
        "swap: a libfabric of the host too old for the image's plugin",
        {**BARE, **fabric("30.0", upto=8), **plugin("FABRIC_1.8")},
        (FAIL, "versions", f"{IN_CONTAINER}/libfabric.so.1 does not define FABRIC_1.8"),
        (FAIL, "versions", "The host's library is older"),
        host=fabric("18.2", directory=NET),
    ),
    swapped(
        "swap: too old for MPI, while there is no plugin",
        {**BARE, **fabric("30.0", upto=8), **mpich("12.3.1", ("libfabric.so.1", "FABRIC_1.8"))},
        (FAIL, "versions", "FABRIC_1.8, which /usr/lib64/libmpi.so.12 needs"),
        host=fabric("18.2", directory=NET),
    ),
    swapped(
        "swap: a libfabric of the host that wants a newer glibc",
        {**glibc("2.31"), **fabric("22.1"), **plugin()},
        (FAIL, "versions", f"GLIBC_2.38, which {IN_CONTAINER}/libfabric.so.1 needs"),
        (FAIL, "versions", "for the host's library"),
        host=fabric("27.0", ("libc.so.6", "GLIBC_2.38"), upto=8, directory=NET),
    ),
    swapped(
        "swap: a libfabric of the host whose own libraries were not captured",
        SWAPPABLE,
        (FAIL, "libraries", "libcxi.so.1"),
        (FAIL, "libraries", "hpcmod site netstack capture"),
        host=fabric("25.0", CXI, upto=7, directory=NET),
    ),
    swapped("swap: the whole closure captured", SWAPPABLE, host=HOST_CXI),
    swapped(
        "swap: an image whose label says that it brings its own",
        {**SWAPPABLE, "/.singularity.d/labels.json": '{"org.hpcmod.ofi": "builtin"}'},
        host=fabric("18.2", upto=0, directory=NET),
        silent=("swap",),
    ),
    swapped(
        "swap: a plugin whose rpath keeps the image's",
        {**BARE, **fabric("22.1"), **plugin("FABRIC_1.3", rpath="/usr/lib64")},
        (WARN, "swap", "its DT_RPATH comes before"),
        host=HOST_FABRIC,
    ),
    swapped(
        "swap: into an image on musl", {**MUSL, **mpich(directory="/usr/lib")}, (FAIL, "libc", "musl"), host=HOST_FABRIC
    ),
    swapped("swap: into an image on musl that holds no MPI", MUSL, (WARN, "libc", "searched first"), host=HOST_FABRIC),
    swapped(
        "swap: a host's library that every program gets, older than the image's",
        {**SWAPPABLE, "/usr/lib64/libssl.so.3": stub("libssl.so.3", defines=["OPENSSL_3.0.0", "OPENSSL_3.2.0"])},
        (WARN, "hidden", f"{IN_CONTAINER}/libssl.so.3 comes before the image's /usr/lib64/libssl.so.3 and lacks"),
        host={
            **fabric("25.0", "libssl.so.3", upto=7, directory=NET),
            f"{NET}/libssl.so.3": stub("libssl.so.3", defines=["OPENSSL_3.0.0"]),
        },
    ),
    swapped(
        "swap: a host's library as new as the image's, but for what only its makers use",
        {**SWAPPABLE, "/usr/lib64/libnl.so.3": stub("libnl.so.3", defines=["libnl_3", "libnl_PRIVATE_45"])},
        host={**fabric("25.0", upto=7, directory=NET), f"{NET}/libnl.so.3": stub("libnl.so.3", defines=["libnl_3"])},
        silent=("hidden",),
    ),
    swapped(
        "swap: mpi4py whose rpath keeps the image's MPI",
        {**SWAPPABLE, **PYTHON, f"{MPI4PY_DIRECTORY}/MPI.x.so": stub("", "libmpi.so.12", rpath="/usr/lib64")},
        (WARN, "mpi-family", "uses the image's /usr/lib64/libmpi.so.12"),
        host=HOST_MPICH,
    ),
    swapped("swap: nothing captured on this node", SWAPPABLE, silent=("swap",)),
    # bound libraries of the host
    scene(
        "a bound directory that the image's LD_LIBRARY_PATH names",
        {**SWAPPABLE, ENV: f"export LD_LIBRARY_PATH={CRAY}\n"},
        (OK, "libraries", "it needs (1 from the host)"),
        host=fabric("18.2", directory=CRAY),
        binds=("/opt/cray",),
    ),
    scene(
        "the same, too old for the plugin",
        {**BARE, **plugin("FABRIC_1.8"), ENV: f"export LD_LIBRARY_PATH={CRAY}\n"},
        (FAIL, "versions", f"{CRAY}/libfabric.so.1 does not define FABRIC_1.8"),
        host=fabric("18.2", directory=CRAY),
        binds=("/opt/cray",),
    ),
    scene(
        "a link within the bound tree",
        {**BARE, **plugin(), ENV: "export LD_LIBRARY_PATH=/opt/cray/libfabric/default\n"},
        host={**fabric("18.2", directory=CRAY), "/opt/cray/libfabric/default": Link("1.15.2.0/lib64")},
        binds=("/opt/cray",),
    ),
    slingshot(
        "a link that leads out of the bound tree",
        {**BARE, **plugin(), ENV: "export LD_LIBRARY_PATH=/opt/cray/lib\n"},
        (FAIL, "libraries", "libfabric.so.1"),
        host={**fabric("18.2", directory="/srv/lib"), "/opt/cray/lib": Link("../../srv/lib")},
        binds=("/opt/cray",),
    ),
    scene(
        "a directory bound to where captured libraries go, on a machine that swaps none",
        SWAPPABLE,
        host=fabric("18.2", upto=0, directory=IN_CONTAINER),
        binds=(IN_CONTAINER,),
    ),
    # MPI
    swapped(
        "the host's MPICH for the image's",
        SWAPPABLE,
        (OK, "mpi-family", f"{IN_CONTAINER}/libmpi.so.12 replaces"),
        (OK, "mpi-age", "12.3.1"),
        host=HOST_MPICH,
    ),
    swapped(
        "the host's older MPICH for the image's",
        SWAPPABLE,
        (WARN, "mpi-age", "12.1.12"),
        host={**mpich("12.1.12", C, directory=NET)},
    ),
    swapped(
        "a host's MPI of one of MPICH's partners",
        SWAPPABLE,
        (UNKNOWN, "mpi-age", "cannot be read from the file name"),
        host={**mpich("12.0.0", C, directory=NET)},
    ),
    swapped(
        "a host's MPICH whose file does not tell",
        SWAPPABLE,
        (UNKNOWN, "mpi-age", "cannot be read from the file name"),
        host={f"{NET}/libmpi.so.12": stub("libmpi.so.12")},
    ),
    swapped(
        "the host's MPICH, and Open MPI in the image",
        {**BARE, **open_mpi()},
        (WARN, "mpi-family", "the image's Open MPI (libmpi.so.40) stays in use"),
        host=HOST_MPICH,
    ),
    scene(
        "a host's MPI that is bound, and that the loader does not find: nobody gets it",
        SWAPPABLE,
        (OK, "mpi-family", "from the image"),
        host=mpich("12.3.1", C, directory="/opt/site/lib"),
        binds=("/opt/site",),
    ),
    swapped(
        "the host's MPICH under the name of the image's old Open MPI",
        {
            **BARE,
            **named("/usr/lib64/libmpi.so.12", stub("libmpi.so.12", "libopen-pal.so.13"), "libmpi.so.12.0.2"),
            "/usr/lib64/libopen-pal.so.13": stub("libopen-pal.so.13"),
        },
        (FAIL, "mpi-family", "was built with Open MPI"),
        host=HOST_MPICH,
    ),
    swapped(
        "MPICH as Debian names it, which no other stands in for",
        {**BARE, **named("/usr/lib64/libmpich.so.12", stub("libmpich.so.12"), "libmpich.so.12.2.1")},
        (WARN, "mpi-family", "MPICH (libmpich.so.12) stays in use with"),
        host=HOST_MPICH,
    ),
    swapped(
        "the standard ABI on both sides",
        {**BARE, **named("/usr/lib64/libmpi_abi.so.0", stub("libmpi_abi.so.0"), "libmpi_abi.so.0.0.1")},
        (OK, "mpi-family", "both are MPI ABI"),
        host=named(f"{NET}/libmpi_abi.so.0", stub("libmpi_abi.so.0"), "libmpi_abi.so.0.0.1"),
    ),
    under_pmi2(
        "Open MPI 5 under srun --mpi=pmi2",
        {**BARE, **open_mpi("40.40.8", orte=False)},
        (WARN, "pmi", "each rank would run on its own"),
    ),
    under_pmi2("Open MPI 4 under srun --mpi=pmi2", {**BARE, **open_mpi()}, silent=("pmi",)),
    scene(
        "Open MPI 5 under srun --mpi=pmix",
        {**BARE, **open_mpi("40.40.8", orte=False)},
        site={"launcher": Launcher(srun=("--mpi=pmix",))},
        silent=("pmi",),
    ),
    scene(
        "mpi4py, which comes with a variant for each family",
        {**BARE, **PYTHON, **open_mpi(), **mpi4py("mpich", "libmpi.so.12"), **mpi4py("openmpi", "libmpi.so.40")},
        (OK, "libraries", "MPI.openmpi"),
    ),
    scene(
        "mpi4py, and no MPI for any of its variants",
        {**BARE, **PYTHON, **mpi4py("mpich", "libmpi.so.12"), **mpi4py("openmpi", "libmpi.so.40")},
        (WARN, "libraries", "libmpi.so.12"),
    ),
    scene(
        "an MPI that only its own set-up makes work",
        {**BARE, **mpich(directory="/opt/intel/mpi/lib")},
        (WARN, "libraries", "libfabric.so.1"),
    ),
    # Slingshot
    slingshot(
        "Slingshot, and the provider inside",
        WITH_CXI,
        (OK, "slingshot", "libfabric 2.2.0 with the Slingshot provider"),
        (OK, "libcxi", "not newer"),
        host=libcxi("1.6.0"),
    ),
    slingshot(
        "Slingshot, and the provider beside libfabric",
        {**BARE, **fabric("28.0", upto=8), "/usr/lib64/libfabric/libcxi-fi.so": stub("libcxi-fi.so"), **plugin()},
        (OK, "slingshot", "with the Slingshot provider"),
    ),
    slingshot(
        "Slingshot, and a libfabric without the provider",
        {**BARE, **fabric("20.0"), **plugin()},
        (WARN, "slingshot", "TCP instead of Slingshot"),
    ),
    scene(
        "Slingshot, found by its device alone",
        {**BARE, **fabric("20.0"), **plugin()},
        (WARN, "slingshot", "TCP instead of Slingshot"),
        host={"/sys/class/cxi/cxi0": ""},
    ),
    slingshot(
        "Slingshot, and a plugin that NCCL does not find by itself",
        {**BARE, **fabric("28.0", upto=8), **plugin(path="/opt/aws-ofi-rccl/librccl-net.so")},
        (UNKNOWN, "slingshot", "is not in a directory that NCCL searches by default"),
        (WARN, "slingshot", "TCP"),
    ),
    slingshot(
        "Slingshot, and besides a plugin that works another that does not",
        {**WITH_CXI, **plugin("FABRIC_1.9", path="/usr/lib64/libnccl-net-other.so")},
        (WARN, "versions", "libnccl-net-other.so"),
        (OK, "slingshot", "with the Slingshot provider"),
    ),
    scene("no Slingshot", {**BARE, **fabric("20.0"), **plugin()}, silent=("slingshot",)),
    slingshot(
        "Slingshot, and NCCL without a plugin",
        {**BARE, **named("/usr/lib64/libnccl.so.2", stub("libnccl.so.2"), "libnccl.so.2.21.5")},
        (WARN, "slingshot", "NCCL but no network plugin"),
    ),
    slingshot("Slingshot, and a plugin that uses InfiniBand", VERBS, (UNKNOWN, "slingshot", "may not be able to use")),
    scene(
        "the same, with a device that is surely not InfiniBand",
        VERBS,
        (WARN, "slingshot", "uses InfiniBand verbs, not libfabric"),
        host={"/sys/class/cxi/cxi0": ""},
    ),
    slingshot(
        "Slingshot, and one more plugin, with its own libfabric, that NCCL does not find",
        {
            **WITH_CXI,
            **mpich(),
            **fabric("20.0", directory="/opt/hpcx/lib"),
            **plugin(path="/opt/hpcx/lib/librccl-net.so", runpath="$ORIGIN"),
        },
        (OK, "slingshot", "NCCL and RCCL: libfabric 2.2.0"),
        silent=("slingshot", "one-libfabric"),
    ),
    swapped(
        "Slingshot, the provider swapped in",
        SWAPPABLE,
        (OK, "slingshot", "libfabric 1.22.0 with the Slingshot provider"),
        host=HOST_CXI,
        site=SLINGSHOT,
    ),
    slingshot(
        "Slingshot, and a libcxi newer than the host's",
        {**BARE, **fabric("30.0", CXI, upto=8), **libcxi("1.6.0"), **plugin()},
        (WARN, "libcxi", "1.6.0 is newer than the host's 1.5.0"),
        host=libcxi("1.5.0"),
    ),
    scene(
        "two libfabrics for one process",
        {
            **BARE,
            **fabric("20.0"),
            **fabric("28.0", upto=8, directory="/opt/aws/lib"),
            **mpich(),
            **plugin("FABRIC_1.8", path="/opt/aws/lib/libnccl-net.so", runpath="$ORIGIN"),
        },
        (WARN, "one-libfabric", "/opt/aws/lib/libfabric.so.1"),
    ),
    # GPUs
    nvidia("CUDA 12.4 on driver 550", CUDA_12, (OK, "cuda-driver", "CUDA 12.4"), host=host_driver("550.54.15")),
    nvidia("CUDA 12.4 on the oldest driver", CUDA_12, (OK, "cuda-driver", "525"), host=host_driver("525.60.13")),
    nvidia(
        "CUDA 12.4 on a driver too old",
        CUDA_12,
        (FAIL, "cuda-driver", "needs driver 525 or newer, found 470.82.01"),
        (FAIL, "cuda-driver", "11.x or older"),
        host=host_driver("470.82.01"),
    ),
    nvidia(
        "the same, with the forward compatibility package",
        {**CUDA_12, "/usr/local/cuda/compat/libcuda.so.1": stub("libcuda.so.1")},
        (WARN, "cuda-driver", "470.82.01"),
        host=host_driver("470.82.01"),
    ),
    nvidia("CUDA on a node without a driver", CUDA_12, (UNKNOWN, "cuda-driver", "no NVIDIA driver")),
    nvidia(
        "CUDA of a release that the table does not know",
        {**BARE, ENV: "export CUDA_VERSION=14.0.1\n"},
        (UNKNOWN, "cuda-driver", "not in the driver table"),
        host=host_driver("650.10.01"),
    ),
    amd("CUDA on AMD's GPUs", CUDA_12, (WARN, "gpu-vendor", "it sees none"), silent=("cuda-driver",)),
    nvidia("ROCm on NVIDIA's GPUs", {**BARE, **ROCM_ENV}, (WARN, "gpu-vendor", "ROCm")),
    amd(
        "GPU code for other GPUs of the vendor",
        {**BARE, ENV: 'export ROCM_VERSION=6.2.4\nexport PYTORCH_ROCM_ARCH="gfx90a;gfx942"\n'},
        (WARN, "gpu-target", "built for gfx90a gfx942, the GPUs here are gfx1100"),
        (WARN, "gpu-target", "Use an image built for gfx1100."),
        host=amd_gpu(110000),
    ),
    scene(
        "GPU code for the GPUs that the profile names, on a node with others",
        {**BARE, ENV: 'export PYTORCH_ROCM_ARCH="gfx90a;gfx942"\n'},
        (OK, "gpu-target", "built for gfx90a gfx942; the GPUs here are gfx90a"),
        host=amd_gpu(110000),
        site={"gpu": Gpus("amd", ("gfx90a",))},
    ),
    nvidia(
        "PTX, which newer GPUs run, too",
        {**CUDA_12, ENV: 'export TORCH_CUDA_ARCH_LIST="7.5 8.0+PTX"\n'},
        (OK, "gpu-target", "the GPUs here are sm_90"),
        host={
            **host_driver("550.54.15"),
            "/proc/driver/nvidia/gpus/0000:62:00.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\n",
        },
    ),
    scene(
        "GPU code for another vendor's GPUs, of which another rule tells",
        {**BARE, ENV: 'export ROCM_VERSION=6.2.4\nexport PYTORCH_ROCM_ARCH="gfx90a"\n'},
        (WARN, "gpu-vendor", "ROCm"),
        site={"gpu": Gpus("nvidia", ("sm_90",), runtime_flags=("--nv",))},
        silent=("gpu-target",),
    ),
    scene(
        "a compression that the runtime does not read",
        BARE,
        (FAIL, "compression", "zstd, which apptainer version 1.3.6 cannot read"),
        packed="zstd",
        runtime="apptainer version 1.3.6",
    ),
    scene(
        "a compression that the machine of the profile does not read",
        BARE,
        (WARN, "compression", "hpcmod fetch --compression gzip"),
        packed="zstd",
        site={"images": Images(compression="gzip")},
    ),
    scene(
        "the driver library, on a machine not known to have NVIDIA GPUs",
        {**BARE, **fabric("20.0"), **plugin("FABRIC_1.3", "libcuda.so.1")},
        (UNKNOWN, "libraries", "libcuda.so.1 from NVIDIA's driver"),
    ),
    nvidia(
        "--nv: a driver that wants a newer glibc",
        {**glibc("2.28"), **fabric("20.0"), **plugin("FABRIC_1.3", "libcuda.so.1")},
        (FAIL, "versions", "GLIBC_2.34, which /.singularity.d/libs/libcuda.so.1 needs"),
        host=DRIVER,
    ),
    nvidia(
        "--nv: a driver that wants a newer glibc, and an image that does not compute on GPUs",
        glibc("2.28"),
        (UNKNOWN, "versions", "GLIBC_2.34, which /.singularity.d/libs/libcuda.so.1 needs"),
        host=DRIVER,
    ),
    nvidia("--nv: a driver for glibc, and a small image on musl", MUSL, host=DRIVER),
    nvidia(
        "--nv: CUDA's stub, which the image's LD_LIBRARY_PATH leads to, before the driver",
        {**CUDA_12, f"{STUBS}/libcuda.so.1": stub("libcuda.so.1"), ENV: f"export LD_LIBRARY_PATH={STUBS}\n"},
        (WARN, "driver-first", f"the image's {STUBS}/libcuda.so.1 comes before the driver's library"),
        host=DRIVER,
    ),
    nvidia(
        "--nv: the stub where the loader does not look",
        {**CUDA_12, f"{STUBS}/libcuda.so.1": stub("libcuda.so.1")},
        host=DRIVER,
        silent=("driver-first",),
    ),
    nvidia(
        "--nv: forward compatibility before the driver",
        {**CUDA_12, f"{COMPAT}/libcuda.so.1": stub("libcuda.so.1"), ENV: f"export LD_LIBRARY_PATH={COMPAT}\n"},
        (UNKNOWN, "driver-first", "for drivers older than its CUDA"),
        host=DRIVER,
    ),
    nvidia("an image that holds both CUDA and ROCm", {**CUDA_12, **ROCM_ENV}, host=DRIVER, silent=("gpu-vendor",)),
    nvidia("--nv: a driver that fits", {**BARE, **fabric("20.0"), **plugin("FABRIC_1.3", "libcuda.so.1")}, host=DRIVER),
    rocm(
        "--rocm: what the image's LD_LIBRARY_PATH leads to comes first",
        {**RCCL, f"/srv/lib/{DRM}": stub(DRM), ENV: "export LD_LIBRARY_PATH=/srv/lib\n"},
        silent=("injection",),
    ),
    rocm(
        "--rocm: the host's library in the place of the image's",
        {**RCCL, f"/usr/lib/{DRM}": stub(DRM)},
        (WARN, "injection", f"/.singularity.d/libs/{DRM} instead of /usr/lib/{DRM}"),
    ),
)


def judge_scene(scene: Scene, tmp_path: Path) -> Verdict:
    root = tmp_path / "host"
    libraries = make_host(root, scene.host)
    netstack = Netstack((Bind(f"{root}{NET}", IN_CONTAINER),)) if scene.swap else Netstack()
    binds = tuple((Bind(f"{root}{place}", place),) for place in scene.binds)
    site = Site("stub", binds=SiteBinds(optional=binds), **scene.site)  # type: ignore[arg-type]
    site = site._replace(network=site.network._replace(netstack=netstack))
    image = make_stack(tmp_path / "image.sif", scene.image, architecture=scene.architecture, compression=scene.packed)
    if scene.runtime:
        make_program(tmp_path / "bin/singularity", f"#!/bin/sh\necho {scene.runtime}\n")
    environ = {"PATH": str(tmp_path / "bin")}
    return judge(make_case(image, site, environ, libraries=libraries, root=root), RULES)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
@pytest.mark.slow
def test_the_verdict_on(scene: Scene, tmp_path: Path) -> None:
    verdict = judge_scene(scene, tmp_path)
    shown = "\n".join(f"{one.level} {one.rule}: {one.found} | {one.cure}" for one in verdict.findings)
    assert verdict.level == scene.level, shown
    for level, rule, words in scene.says:
        fitting = [one for one in verdict.findings if (one.level, one.rule) == (level, rule)]
        assert any(words in one.found or words in one.cure for one in fitting), f"{level} {rule} {words}\n{shown}"
    assert not [one for one in verdict.findings if one.rule in scene.silent and one.level != OK], shown


def test_there_is_a_case_for_every_rule_and_every_level_that_it_names() -> None:
    said = {(rule, level) for scene in SCENES for level, rule, _ in scene.says}
    promised = {(rule.name, level) for rule in RULES for level in (WARN, FAIL) if level in rule.levels}
    assert promised <= said, f"add to SCENES in this file a scene that `says` each of: {sorted(promised - said)}"
    assert len(SCENES) >= 40
