"""Stand-ins for the base images and sources of recipes, where neither NGC's and AMD's images nor the sources are
available.

STUBBED   the base image (dev/stack's Debian instead of NGC's or AMD's), the distribution's package tools (apt-get does
          nothing), make, cmake and the sources: each `configure` accepts any options, each `make install` creates empty
          files with the names that the real one would install. So nothing is compiled, and options are not validated.
REAL      bash, tar (bzip2 is Python's), sha256sum, ldconfig, Python, pip with its resolver and its hash check, and
          every line of every component; wheels and sdists have no code, but have the format that pip accepts.
"""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.building.values.build_plan import BuildPlan
    from hpcmod.building.values.recipe import Recipe

INSTALLED = {
    "libfabric": ("lib/libfabric.so.1", "bin/fi_info"),
    "pmix": ("lib/libpmix.so.2",),
    "openmpi": ("lib/libmpi.so.40", "bin/mpicc", "bin/mpirun"),
    "mpich": ("lib/libmpi.so.12", "bin/mpicc", "bin/mpiexec"),
    "aws-ofi-nccl": ("lib/libnccl-net-ofi.so",),
    "nccl": ("lib/libnccl.so.2", "include/nccl.h"),
    "nccl-tests": (),
    "shs-cassini-headers": (),
    "shs-cxi-driver": (),
    "shs-libcxi": ("lib/libcxi.so.1",),
}
"""Files that `make install` of each source creates in the prefix; a test checks that components use only these
names.
"""

_CONFIGURE = """#!/bin/sh
for option; do case $option in --prefix=*) echo "${option#*=}" >prefix ;; esac; done
printf '%s\\n' "$@" >>/opt/configured
"""
_MAKE = """#!/bin/sh
for word; do case $word in install) installs=1 ;; PREFIX=*) echo "${word#*=}" >prefix ;; esac; done
mkdir -p build && touch build/all_reduce_perf
[ "${installs-}" ] && [ -f installed ] || exit 0
prefix=$(cat prefix)
while read -r name; do mkdir -p "$prefix/${name%/*}" && : >"$prefix/$name" && chmod 755 "$prefix/$name"; done <installed
"""
_NOTHING = "#!/bin/sh\nexit 0\n"
_PYTHON = """#!/bin/sh
[ -d /opt/pip ] || /usr/bin/python3 -m zipfile -e /usr/share/python-wheels/pip-*.whl /opt/pip
export PIP_BREAK_SYSTEM_PACKAGES=1 PYTHONPATH=/opt/pip
exec /usr/bin/python3 "$@"
"""
_BACKEND = """
import base64, hashlib, pathlib, zipfile
def _metadata(name, version): return f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
def build_wheel(directory, settings=None, metadata=None):
    name, version = pathlib.Path("name").read_text().split()
    file = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / file, "w") as wheel:
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", _metadata(name, version))
        lines = ("Wheel-Version: 1.0", "Generator: stub", "Root-Is-Purelib: true", "Tag: py3-none-any", "")
        wheel.writestr(f"{info}/WHEEL", "\\n".join(lines))
        wheel.writestr(f"{info}/RECORD", "")
    return file
"""

_BZIP2 = "#!/usr/bin/python3\nimport bz2, sys\nsys.stdout.buffer.write(bz2.decompress(sys.stdin.buffer.read()))\n"

PROGRAMS = {"apt-get": _NOTHING, "bzip2": _BZIP2, "make": _MAKE, "cmake": _NOTHING, "python": _PYTHON}
"""Bound over /usr/local/bin during a build, so that they come before the base image's own."""


def needed(recipe: Recipe) -> dict[str, str]:
    """Return a value for each setting without a default in a recipe."""
    return {key: "https://127.0.0.1:1/simple" for key, _ in recipe.needs}


def extras_of(recipe: Recipe, *, mpi: str = "", ofi: str = "") -> tuple[str, ...]:
    """Return all extras that are possible with a choice of MPI and libfabric."""
    needs = {"horovod": mpi, "aws-trace": ofi}
    return tuple(extra for extra in recipe.extras if needs.get(extra) != "none")


def make_sources(plan: BuildPlan, directory: Path) -> Path:
    """Write a stand-in for each source of a plan, under the file name that hpcmod uses."""
    directory.mkdir(exist_ok=True)
    for source in plan.sources:
        top = f"{source.name}-{source.version}"
        files = {
            "configure": _CONFIGURE,
            "installed": "".join(f"{name}\n" for name in INSTALLED[source.name]),
            "include/header.h": "",
            "share/cassini-headers/csr_defs.json": "{}",
            "utils/cxi_dump_csrs.py": 'PLACE = "/usr/share/cassini-headers/csr_defs.json"\n',
        }
        if source.name in ("aws-ofi-nccl", "shs-libcxi"):  # git tags, which run autogen.sh before configure
            files["autogen.sh"] = (
                f"#!/bin/sh\ncat >configure <<'END'\n{files.pop('configure')}END\nchmod 755 configure\n"
            )
        _tar(directory / source.file_name, {f"{top}/{name}": text for name, text in files.items()})
    return directory


def make_wheels(plan: BuildPlan, directory: Path) -> Path:
    """Write an empty wheel for each Python package in a plan, and an sdist for those that it compiles."""
    directory.mkdir(exist_ok=True)
    for step in plan.steps:
        told = dict(step.environment)
        for requirement in told.get("PACKAGES", "").split():
            name, version = requirement.split("==")
            write = _sdist if name == told.get("NO_BINARY") else write_wheel
            write(directory, name, version)
        if "CYTHON" in told:
            write_wheel(directory, "cython", told["CYTHON"])
        for name in ("mpi4py", "horovod"):
            if name.upper() in told:
                _sdist(directory, name, told[name.upper()])
    return directory


def write_wheel(directory: Path, name: str, version: str) -> None:
    """Write an empty wheel."""
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: stub\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_hash(text)},{len(text)}\n" for path, text in files.items())
    with zipfile.ZipFile(directory / f"{plain}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def _sdist(directory: Path, name: str, version: str) -> None:
    top = f"{name}-{version}"
    files = {
        f"{top}/PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{top}/pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "stub"\nbackend-path = ["."]\n',
        f"{top}/stub.py": _BACKEND,
        f"{top}/name": f"{name} {version}\n",
    }
    _tar(directory / f"{top}.tar.gz", files)


def _tar(path: Path, files: Mapping[str, str]) -> None:
    kind = path.name.rpartition(".")[2]
    with tarfile.open(path, f"w:{kind}") as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))


def write_programs(directory: Path) -> Path:
    """Write the stand-ins for the base image's programs."""
    directory.mkdir()
    for name, text in PROGRAMS.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory
