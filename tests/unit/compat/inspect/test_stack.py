from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.compat.inspect.stack import find_stack, open_files
from hpcmod.compat.values.stack import COLLECTIVES, CUDA, MPI4PY, MPICH, OPEN_MPI, PART, GpuStack, StackFacts
from hpcmod.images import Sif
from tests.corpus import Link
from tests.stacks import ARCH, LOADER, Stubs, fabric, glibc, make_stack, mpich, named, open_mpi, plugin, stub

TRIPLET = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[ARCH]
CONDA = "/opt/miniconda3/envs/pytorch"
SITE = f"{CONDA}/lib/python3.12/site-packages"
PYTHON: Stubs = {
    "/.singularity.d/env/91-conda.sh": 'export WITH_CONDA="source /opt/miniconda3/bin/activate pytorch"\n',
    f"{CONDA}/bin/python3.12": "",
    f"{CONDA}/bin/python3": Link("python3.12"),
}


def stack_of(tmp_path: Path, *parts: Stubs) -> StackFacts:
    files = {path: content for part in parts for path, content in part.items()}
    image = make_stack(tmp_path / "image.sif", files)
    with open_files(image) as opened:
        return find_stack(opened, Sif(image).facts())


def test_reads_all_of_a_stack(tmp_path: Path) -> None:
    found = stack_of(
        tmp_path,
        glibc("2.34"),
        fabric("28.0", "libcxi.so.1", ("libc.so.6", "GLIBC_2.34"), upto=8),
        named("/usr/lib64/libcxi.so.1", stub("libcxi.so.1"), "libcxi.so.1.5.0"),
        mpich("12.3.1"),
        plugin("FABRIC_1.3", "libcudart.so.12"),
        named("/usr/lib64/libcudart.so.12", stub("libcudart.so.12"), "libcudart.so.12.4.127"),
        named("/usr/lib64/libnccl.so.2", stub("libnccl.so.2"), "libnccl.so.2.21.5"),
    )
    assert (found.architecture, found.libc, found.glibc, found.glibc_needed) == (ARCH, "glibc", "2.34", "2.34")
    assert [(one.family, one.version) for one in found.mpis] == [(MPICH, "12.3.1")]
    assert found.mpi == found.mpis[0]
    assert [(one.release, one.newest, one.cxi) for one in found.fabrics] == [("2.2.0", "FABRIC_1.8", True)]
    assert [(one.gpu, one.needs) for one in found.plugins] == [(CUDA, "FABRIC_1.3")]
    assert (found.cxi_library, found.gpu) == ("1.5.0", GpuStack("NCCL", "12.4.127"))


def test_an_image_with_nothing_in_it_has_nothing(tmp_path: Path) -> None:
    assert stack_of(tmp_path, {"/bin/sh": ""}) == StackFacts(ARCH, compression="gzip")


def test_the_first_in_the_loaders_order_is_the_one(tmp_path: Path) -> None:
    environment = {"/.singularity.d/env/90-environment.sh": "export LD_LIBRARY_PATH=/srv/mpi\n"}
    found = stack_of(
        tmp_path, glibc(), open_mpi(), mpich(directory="/srv/mpi"), mpich(directory="/opt/x/lib"), environment
    )
    assert [one.path for one in found.mpis] == [
        "/srv/mpi/libmpi.so.12",
        "/usr/lib64/libmpi.so.40",
        "/opt/x/lib/libmpi.so.12",
    ]
    assert found.library_path == ("/srv/mpi",)


def test_a_library_with_two_names_is_one(tmp_path: Path) -> None:
    found = stack_of(tmp_path, glibc(), mpich(), {"/usr/local/mpi": Link("/usr"), "/lib64x": Link("usr/lib64")})
    assert len(found.mpis) == 1


@pytest.mark.parametrize(
    "directory",
    [
        *("/usr/lib64", "/usr/lib", "/lib64", f"/usr/lib/{TRIPLET}", "/usr/local/lib", "/opt/mpich/lib"),
        *("/container/ompi/lib", "/opt/amazon/openmpi/lib", "/usr/lib64/mpi/gcc/mpich/lib64", f"{CONDA}/lib"),
    ],
)
def test_looks_where_distributions_and_builders_put_libraries(tmp_path: Path, directory: str) -> None:
    found = stack_of(tmp_path, PYTHON, mpich(directory=directory))
    assert [one.path for one in found.mpis] == [f"{directory}/libmpi.so.12"]


def test_finds_the_files_that_use_them(tmp_path: Path) -> None:
    found = stack_of(
        tmp_path,
        glibc(),
        PYTHON,
        open_mpi(directory="/opt/ompi/lib"),
        {"/opt/ompi/lib/openmpi/mca_mtl_ofi.so": stub("mca_mtl_ofi.so", "libfabric.so.1")},
        {f"{SITE}/mpi4py/MPI.cpython-312-{TRIPLET}.so": stub("MPI.so", "libmpi.so.40"), f"{SITE}/mpi4py/MPI.pyi": ""},
        {f"{SITE}/torch/lib/librccl.so": stub("librccl.so.1")},
    )
    assert [one.family for one in found.mpis] == [OPEN_MPI]
    assert dict(found.others) == {
        MPI4PY: f"{SITE}/mpi4py/MPI.cpython-312-{TRIPLET}.so",
        PART: "/opt/ompi/lib/openmpi/mca_mtl_ofi.so",
        COLLECTIVES: f"{SITE}/torch/lib/librccl.so",
    }
    assert found.gpu.collectives == "RCCL"


@pytest.mark.parametrize(
    ("files", "cuda", "rocm"),
    [
        (
            {"/.singularity.d/env/10-docker2singularity.sh": 'export CUDA_VERSION="${CUDA_VERSION:-"12.8.1"}"\n'},
            "12.8.1",
            "",
        ),
        (
            named("/usr/local/cuda/lib64/libcudart.so.11.0", stub("libcudart.so.11.0"), "libcudart.so.11.8.89"),
            "11.8.89",
            "",
        ),
        ({f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12": stub("libcudart.so.12"), **PYTHON}, "12", ""),
        (
            {
                f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12": stub("libcudart.so.12"),
                f"{SITE}/torch-2.6.0+cu124.dist-info/METADATA": "Name: torch\nVersion: 2.6.0+cu124\n",
                **PYTHON,
            },
            "12.4",
            "",
        ),
        (
            {
                "/.singularity.d/env/10-docker2singularity.sh": 'export CUDA_VERSION="${CUDA_VERSION:-"12.4.1"}"\n',
                f"{SITE}/torch-2.6.0+cu118.dist-info/METADATA": "Name: torch\nVersion: 2.6.0+cu118\n",
                **PYTHON,
            },
            "11.8",
            "",
        ),
        ({"/opt/rocm-6.2.4/.info/version": "6.2.4-139\n"}, "", "6.2.4"),
        ({"/opt/rocm": Link("rocm-5.7.1"), "/opt/rocm-5.7.1/.info/version": "5.7.1-98\n"}, "", "5.7.1"),
        ({"/opt/rocm/.info/version": "not a version"}, "", ""),
    ],
)
def test_detects_cuda_and_rocm_by_labels_or_files(tmp_path: Path, files: Stubs, cuda: str, rocm: str) -> None:
    found = stack_of(tmp_path, files)
    assert (found.gpu.cuda.startswith(cuda), bool(found.gpu.cuda)) == (True, bool(cuda))
    assert found.gpu.rocm == rocm


def test_the_loader_itself_is_not_a_library_that_can_be_missing(tmp_path: Path) -> None:
    found = stack_of(tmp_path, {LOADER: stub(LOADER.rpartition("/")[2])})
    assert (found.libc, found.glibc) == ("", "")


def test_musl_is_known_by_its_loader(tmp_path: Path) -> None:
    assert stack_of(tmp_path, {"/lib/ld-musl-aarch64.so.1": ""}).libc == "musl"
