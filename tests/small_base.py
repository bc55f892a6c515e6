"""A small base image for builds: those files of the one from dev/stack that a shell needs.

Each build unpacks them and compresses them again. `fakeroot` of Apptainer needs cut, getopt and sed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

from tests.stack import CHECKOUT

PROGRAMS = "bash|basename|cat|chmod|chown|cp|cut|dash|dirname|env|find|getopt|head|id|ls|mkdir|rm|sed|sh|sleep|touch"
KEPT = (
    r"(bin|sbin|lib\w*|etc|dev|proc|tmp|root|usr|var|var/tmp)",
    r"etc/(group|hosts|nsswitch.conf|passwd|resolv.conf)",
    r"usr/(s?bin|lib\w*|lib\w*/[^/]*linux[^/]*)",
    r"usr/lib\w*/([^/]*linux[^/]*/)?(ld-linux[^/]*|lib(acl|attr|c|cap|dl|m|pcre2-8|pthread|rt|selinux|tinfo))\.so[^/]*",
    rf"usr/s?bin/({PROGRAMS})",
)
PYTHON = (
    r"etc/.*",
    r"usr/lib\w*/([^/]*linux[^/]*/)?lib(bz2|crypt|expat|ffi|lzma|md|resolv|util|z|zstd)\.so[^/]*",
    r"usr/s?bin/(?!perl|gpg)[^/]*",
    r"usr/lib/python3[^/]*(/(?!test|idlelib|lib2to3|pydoc_data|(.*/)?__pycache__).*)?",
    r"usr/share(/python-wheels(/.*)?)?",
    r"var/lib(/dpkg(/status)?)?",
)
"""What the recipes need in addition: Python, and all small programs."""
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
