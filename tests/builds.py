"""Small build plans for tests: bash scripts that run on top of the base image from dev/stack."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from hpcmod.building.image import BuildOptions, Built, build_image
from hpcmod.building.values.build_plan import BuildPlan, BuildStep, with_fingerprint
from hpcmod.images.sif.reader import architecture_name
from tests.stack import CHECKOUT

LIBRARIES = "acl|attr|bz2|c|cap|crypt|dl|expat|ffi|lzma|m|md|pcre2-8|pthread|resolv|rt|selinux|tinfo|util|z|zstd"
KEPT = (
    r"(bin|sbin|lib\w*|etc/.*|dev|proc|tmp|root|usr|var|var/tmp)",
    r"usr/(s?bin|lib\w*|lib\w*/[^/]*linux[^/]*)",
    rf"usr/lib\w*/([^/]*linux[^/]*/)?(ld-linux[^/]*|lib({LIBRARIES}))\.so[^/]*",
    r"usr/s?bin/(?!perl|python|gpg)[^/]*",
)
PYTHON = (
    r"usr/bin/python3[^/]*",
    r"usr/lib/python3[^/]*(/(?!test|idlelib|lib2to3|pydoc_data|(.*/)?__pycache__).*)?",
    r"usr/share(/python-wheels(/.*)?)?",
    r"var/lib(/dpkg(/status)?)?",
)
LARGE = 200_000
"""Size in bytes of programs that are left out: those of package tools and file systems, except for the named ones."""
NEEDED = {"bash", "find", "ldconfig", "python3", "tar"}


def make_small_base(base: Path, directory: Path, *, python: bool = False) -> Path:
    """Make a layout from those files of the base image that a shell needs, and Python if wanted: building is fast."""
    layer = max((base / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    keep, tar = re.compile("|".join((*KEPT, *(PYTHON if python else ())))), directory / "small.tar"
    with tarfile.open(layer) as source, tarfile.open(tar, "w") as target:
        for member in source:
            path = PurePosixPath(member.name)
            large = member.size > LARGE and path.parent.name in ("bin", "sbin")
            if keep.fullmatch(str(path)) and not (large and path.name.partition(".")[0] not in NEEDED):
                target.addfile(member, source.extractfile(member) if member.isreg() else None)
    script = CHECKOUT / "dev" / "lib" / "oci_layout.py"
    subprocess.run([sys.executable, str(script), str(tar), str(directory / "small")], check=True)
    return directory / "small"


def make_plan(base: Path | str, *scripts: str, inputs: tuple[tuple[str, str], ...] = ()) -> BuildPlan:
    """Make a plan whose components are named first, second, ..."""
    names = ("first", "second", "third")
    plan = BuildPlan(
        recipe="trial",
        base=f"oci:{base}" if isinstance(base, Path) else base,
        architecture=architecture_name(os.uname().machine),
        steps=tuple(BuildStep(name, script, (("WORDS", "a b"),)) for name, script in zip(names, scripts)),
        options=(("mpi", "none"),),
        labels=(("org.hpcmod.recipe", "trial"), ("org.hpcmod.options", "mpi=none ofi=swap")),
        environment=(("TRIAL", "of the recipe"),),
        search_paths=(("PATH", "/opt/trial/bin"),),
        inputs=inputs,
        sources=(),
        lock="",
        library="",
        fingerprint="",
    )
    return with_fingerprint(plan, contents="")


def build(
    plan: BuildPlan,
    out: Path,
    *,
    engine: str | None = "buildah",
    environ: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Built:
    """Build as `hpcmod build` does, but keep the state next to the image, not in the user's home."""
    state = {"XDG_STATE_HOME": str(out.parent / "state")}
    options = BuildOptions({**(environ or os.environ), **state}, "hpcmod in a test", engine=engine, tell=tell)
    return build_image(plan, out, options=options)


def left_behind(directory: Path) -> list[str]:
    """List what a build left behind, other than the image, its provenance, its log and its state."""
    kept = (".sif", ".provenance.json", ".build.log", "state")
    return sorted(path.name for path in directory.iterdir() if not path.name.endswith(kept))


def engine_processes(mark: str) -> list[str]:
    """List the command lines of processes that an engine started: those with `mark` in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
