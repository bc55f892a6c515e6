"""Describe the files below a directory, so that the results of two runs can be compared."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path

_VOLATILE = (
    re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?"),
    re.compile(r"\b\d{8}[.-]\d{6}\b"),
    re.compile(r"\b\d{9,}(\.\d+)?\b"),
    re.compile(r'\\*"(method|bytes_written|fingerprint)\\*": [^,]*'),  # an existing image is kept, not copied again
)
_IGNORED = re.compile(
    r"(^|/)(\.locks/.*|cache/locks/.*|.*\.guard|home/\.(cache|lmod\.d)/.*|.*\.log(\.bz2)?|.*_build_report.*|"
    r"ebfiles_repo/.*|easybuild/.*|index\.jsonl)$"
)
_UNREAD = re.compile(r"\.log(\.bz2)?$|_build_report|ebfiles_repo/|(^|/)easybuild/(.*/)?[^/]*(?<!\.eb)$|home/\.lmod\.d/")
"""Files that EasyBuild writes for people, its archive of easyconfigs, and Lmod's cache: their content has no effect."""

_PROCESS = (re.compile(r'"(pid|started|token)": ("[^"]*"|\d+)'),)
_TOKENS = re.compile(r"(?<=\.hpcmod-part-)[0-9a-f-]+|(?<=^hpcmod-)(\w+-)?\w{8}(?=/|$)|\d{8}[._-]?\d{6}(\.\w{5})?")
"""Parts of names: those of temporary files, and times."""

_ANY_DIGEST = re.compile(r"[0-9a-f]{64}")
_TEXTS = (".json", ".jsonl", ".eb", ".lua", ".sh", ".toml", ".html", ".md", "")


def signature(top: Path, *, contents: bool = True) -> dict[str, str]:
    """Return, by path, the mode of each file below a directory and a digest of its content without times.

    Locks, logs, EasyBuild's own files and the layer indexes, which a conversion does not need, are skipped. Of a
    journal only the verbs count: a change that failed and was made again has different numbers.

    `contents`: Whether to compare contents; if False, only modes, and names without digests.
    """
    found = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if _IGNORED.search(name) or (path.is_dir() and not path.is_symlink()):
            continue
        found[name if contents else _ANY_DIGEST.sub("digest", name)] = (
            f"{_mode(path)} {_digest(path, _read_result) if contents else ''}"
        )
    return found


def describe_state(top: Path, temporary: Path) -> str:
    """Return a digest of everything that a next run can find, including what `signature` skips.

    Only times, process IDs and random tokens are left out, in contents and in names, and the contents of EasyBuild's
    own files, which nothing reads again. A lock or a temporary file of an ended process counts.

    `temporary`: The directory for temporary files, in which EasyBuild's own do not count.
    """
    return hashlib.sha256("\n".join(state_lines(top, temporary)).encode()).hexdigest()


def state_lines(top: Path, temporary: Path) -> list[str]:
    """Return a line for each file of a state: its name, mode and the digest of its content."""
    kept = [path for one in temporary.glob("*hpcmod*") for path in (one, *one.rglob("*"))]
    lines = (*(_state_line(path, top) for path in top.rglob("*")), *(_state_line(path, temporary) for path in kept))
    return sorted(lines)


def _state_line(path: Path, below: Path) -> str:
    name = str(path.relative_to(below))
    if path.is_dir() and not path.is_symlink():
        content = ""
    elif _UNREAD.search(name) and not path.is_symlink():
        content = "written" if path.stat().st_size else "empty"
    else:
        content = _digest(path, _read_state)
    return f"{_TOKENS.sub('', name)} {_mode(path)} {content}"


_KNOWN: dict[tuple[str, int, int, str], str] = {}
"""Digests by path, inode, time of the last change (ctime), which no program can set, and kind of digest."""


def _mode(path: Path) -> str:
    return f"{path.lstat().st_mode:o}"


def _digest(path: Path, read: Callable[[Path], bytes]) -> str:
    """Return the digest of what `read` makes of a file; of a link, its target."""
    if path.is_symlink():
        return f"-> {path.readlink()}"
    status = path.stat()
    key = str(path), status.st_ino, status.st_ctime_ns, read.__name__
    if key not in _KNOWN:
        _KNOWN[key] = hashlib.sha256(read(path)).hexdigest()[:16]
    return _KNOWN[key]


def _read_result(path: Path) -> bytes:
    """Return the content of a file without times; of a journal, its verbs."""
    data = path.read_bytes()
    if path.name == "journal.jsonl":
        return " ".join(sorted(set(re.findall(r'"verb": "(\w+)"', data.decode())))).encode()
    if path.suffix in _TEXTS and len(data) < 1 << 20:
        return _without(_VOLATILE, data)
    return data


def _read_state(path: Path) -> bytes:
    """Return the content of a file without times and the identities of processes."""
    data = path.read_bytes()
    return _without((*_PROCESS, *_VOLATILE[:3]), data) if len(data) < 1 << 20 and b"\0" not in data else data


def _without(patterns: Iterable[re.Pattern[str]], data: bytes) -> bytes:
    text = data.decode(errors="replace")
    for pattern in patterns:
        text = pattern.sub("", text)
    return text.encode()
