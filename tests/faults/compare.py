"""Describe the files below a directory, so that the results of two runs can be compared."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_VOLATILE = (
    re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?"),
    re.compile(r"\b\d{8}[.-]\d{6}\b"),
    re.compile(r"\b\d{9,}(\.\d+)?\b"),
    re.compile(r'"(method|bytes_written|fingerprint)": [^,]*'),  # an existing image is kept, not copied again
)
_IGNORED = re.compile(
    r"(^|/)(\.locks/.*|cache/locks/.*|.*\.guard|home/\.(cache|lmod\.d)/.*|.*\.log(\.bz2)?|.*_build_report.*|"
    r"ebfiles_repo/.*|easybuild/.*|index\.jsonl|home/\.local/state/hpcmod/layers/.*)$"
)
_ANY_DIGEST = re.compile(r"[0-9a-f]{64}")
_TEXTS = (".json", ".jsonl", ".eb", ".lua", ".sh", ".toml", ".html", ".md", "")


def signature(top: Path, *, contents: bool = True) -> dict[str, str]:
    """Return, by path, the mode of each file below a directory and a digest of its content without times.

    Locks, logs, EasyBuild's own files and the layer indexes, which a conversion does not need, are skipped. Of a
    journal only the verbs count: a change that failed and was made again has different numbers.

    Parameters
    ----------
    contents
        Whether to compare contents; if False, only modes, and names without digests.
    """
    found = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if _IGNORED.search(name) or (path.is_dir() and not path.is_symlink()):
            continue
        found[name if contents else _ANY_DIGEST.sub("digest", name)] = (
            f"{_mode(path)} {_digest(path) if contents else ''}"
        )
    return found


def describe_state(top: Path) -> str:
    """Return a digest of everything below a directory, including what `signature` skips, but without times."""
    every = hashlib.sha256()
    for path in sorted(top.rglob("*")):
        content = "" if path.is_dir() and not path.is_symlink() else _digest(path)
        if path.name == "journal.jsonl":
            content += f" {path.read_bytes().count(10)} lines"
        every.update(f"{path.relative_to(top)}\0{_mode(path)} {content}\n".encode())
    return every.hexdigest()


_KNOWN: dict[tuple[str, int, int], str] = {}
"""Digests by path, inode and time of the last change (ctime), which no program can set."""


def _mode(path: Path) -> str:
    return f"{path.lstat().st_mode:o}"


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    status = path.stat()
    key = str(path), status.st_ino, status.st_ctime_ns
    if key not in _KNOWN:
        _KNOWN[key] = _read_digest(path)
    return _KNOWN[key]


def _read_digest(path: Path) -> str:
    data = path.read_bytes()
    if path.name == "journal.jsonl":
        return " ".join(sorted(set(re.findall(r'"verb": "(\w+)"', data.decode()))))
    if path.suffix in _TEXTS and len(data) < 1 << 20:
        text = data.decode(errors="replace")
        for pattern in _VOLATILE:
            text = pattern.sub("", text)
        data = text.encode()
    return hashlib.sha256(data).hexdigest()[:16]
