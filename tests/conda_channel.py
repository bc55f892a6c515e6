"""Small handwritten conda packages and a channel of them; no network needed."""

from __future__ import annotations

import asyncio
import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

PLACEHOLDER = "/opt/built_in_a_long_placeholder_directory_placehold_placehold_placehold_placehold_placehold"
"""Build prefix of the packages; installing a package replaces it in the package's files."""


@dataclass(frozen=True)
class CondaFile:
    """A file of a package."""

    content: bytes = b""
    mode: int = 0o644
    link: str = ""
    """Target of a symbolic link; empty for a regular file."""


def make_conda(
    channel: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes | CondaFile],
    *,
    depends: Sequence[str] = (),
    python: bool = False,
    kind: str = "conda",
    listed: Sequence[str] | None = None,
    entry_points: Sequence[str] = (),
    **index: Any,
) -> Path:
    """Write a package into a channel and return its path; run `index_channel` to add it to the index.

    `python`: Whether it is a `noarch: python` package, whose site-packages/ works with any Python.
    `kind`: Format: conda or tar.bz2.
    `listed`: Paths in its file list; None: the files that it really has.
    """
    where = "noarch" if python else "linux-64"
    directory = channel / where
    directory.mkdir(parents=True, exist_ok=True)
    content = {path: _as_file(one) for path, one in files.items()}
    values = {
        "name": name, "version": version, "build": "h0_0", "build_number": 0, "depends": list(depends), "subdir": where,
        "timestamp": 1700000000000, "license": "MIT", **({"noarch": "python"} if python else {}), **index,
    }  # fmt: skip
    info = {
        "info/index.json": CondaFile(json.dumps(values).encode()),
        "info/paths.json": CondaFile(json.dumps({"paths_version": 1, "paths": _paths(content, listed)}).encode()),
        "info/files": CondaFile("".join(f"{path}\n" for path in content).encode()),
        "info/about.json": CondaFile(b"{}"),
    }
    if python:
        link = {"noarch": {"type": "python", "entry_points": list(entry_points)}, "package_metadata_version": 1}
        info["info/link.json"] = CondaFile(json.dumps(link).encode())
    stem = f"{name}-{version}-h0_0"
    path = directory / f"{stem}.{kind}"
    if kind == "tar.bz2":
        path.write_bytes(bz2.compress(_tar({**info, **content})))
        return path
    compress = zstandard.ZstdCompressor(level=1).compress
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in (
            ("metadata.json", b'{"conda_pkg_format_version": 2}'),
            (f"pkg-{stem}.tar.zst", compress(_tar(content))),
            (f"info-{stem}.tar.zst", compress(_tar(info))),
        ):
            archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), data)
    return path


def index_channel(channel: Path) -> str:
    """Write a channel's index with rattler's own function, and return the channel's URL."""
    from rattler import index

    (channel / "noarch").mkdir(parents=True, exist_ok=True)
    asyncio.run(index.index_fs(channel, write_zst=False, write_shards=False, force=True))
    return channel.as_uri()


def dist_info(name: str, version: str) -> dict[str, str]:
    """Return the metadata files by which Python knows that a package is installed."""
    info = f"site-packages/{name}-{version}.dist-info"
    return {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", f"{info}/RECORD": ""}


def _as_file(one: str | bytes | CondaFile) -> CondaFile:
    if isinstance(one, CondaFile):
        return one
    return CondaFile(one.encode() if isinstance(one, str) else one)


def _paths(content: Mapping[str, CondaFile], listed: Sequence[str] | None) -> list[dict[str, object]]:
    found = []
    for path in content if listed is None else listed:
        one = content.get(path, CondaFile())
        entry: dict[str, object] = {
            "_path": path,
            "path_type": "softlink" if one.link else "hardlink",
            "sha256": hashlib.sha256(one.content).hexdigest(),
            "size_in_bytes": len(one.content),
        }
        if PLACEHOLDER.encode() in one.content:
            entry["prefix_placeholder"] = PLACEHOLDER
            entry["file_mode"] = "binary" if b"\0" in one.content else "text"
        found.append(entry)
    return found


def _tar(content: Mapping[str, CondaFile]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path, one in content.items():
            member = tarfile.TarInfo(path)
            member.mode, member.size = one.mode, len(one.content)
            if one.link:
                member.type, member.linkname = tarfile.SYMTYPE, one.link
            archive.addfile(member, io.BytesIO(one.content))
    return data.getvalue()
