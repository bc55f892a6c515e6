"""Small handwritten wheels and source archives; no network needed."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    directory: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    scripts: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """Write a wheel with the given files or, by default, one module whose `version` is the wheel's version.

    `tag`: Python, ABI and platform tag.
    `scripts`: Entry point of each command, by its name: {"greet": "einops:main"}.
    """
    directory.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    content = {f"{name}.py": f"version = {version!r}\n"} if files is None else dict(files)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    content[f"{info}/METADATA"] = "\n".join(["Metadata-Version: 2.1", *lines, ""])
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
    if scripts:
        listed = "".join(f"{command} = {function}\n" for command, function in scripts.items())
        content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{listed}"
    content[f"{info}/RECORD"] = ""
    path = directory / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in content.items():
            wheel.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), text)
    return path


def make_source(directory: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """Write a source archive with these files."""
    path = directory / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for member, text in {"PKG-INFO": f"Metadata-Version: 1.0\nName: {name}\n", **files}.items():
            info = tarfile.TarInfo(f"{name}-{version}/{member}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
