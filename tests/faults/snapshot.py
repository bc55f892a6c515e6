"""Save the state of a directory, and restore it by rewriting only what has changed."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path


class Snapshot:
    """A copy of a directory.

    A file counts as unchanged if its inode and the time of its last change (ctime), which no program can set, are the
    same.
    """

    def __init__(self, top: Path, copy: Path) -> None:
        self._top, self._copy = top, copy
        shutil.copytree(top, copy, symlinks=True)
        self._known = {name: _identity(path.lstat()) for name, path in _walk(top)}

    def restore(self) -> None:
        """Restore the directory to its saved state."""
        _open(self._top)
        there = dict(_walk(self._top))
        for name, path in reversed(there.items()):
            if name not in self._known or self._is_other(name, path):
                _remove(path)
        copies = [("", self._copy), *_walk(self._copy)]
        for name, kept in copies:
            path = self._top / name
            if not os.path.lexists(path):
                _copy(kept, path)
                self._known[name] = _identity(path.lstat())
        for name, kept in reversed(copies):
            if kept.is_dir() and not kept.is_symlink():
                _copy_times(kept, self._top / name)

    def _is_other(self, name: str, path: Path) -> bool:
        now = path.lstat()
        if stat.S_ISDIR(now.st_mode):
            return not stat.S_ISDIR(self._known[name][1])
        return _identity(now) != self._known[name]


def empty(top: Path) -> None:
    """Remove everything in a directory."""
    _open(top)
    for path in list(top.iterdir()):
        _remove(path)


def _open(top: Path) -> None:
    """Make directories writable for their owner."""
    for directory, directories, _ in os.walk(top):
        for path in (Path(directory, one) for one in directories):
            if not path.is_symlink() and path.stat().st_mode & 0o700 != 0o700:
                path.chmod(0o700)


def _walk(top: Path) -> Iterator[tuple[str, Path]]:
    """Yield every path below a directory, each directory before its content."""
    for directory, directories, files in os.walk(top):
        for one in (*directories, *files):
            path = Path(directory, one)
            yield str(path.relative_to(top)), path


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mode, status.st_ctime_ns


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        target.mkdir()
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _copy_times(source: Path, target: Path) -> None:
    if _described(source) != _described(target):
        shutil.copystat(source, target)


def _described(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mode, status.st_mtime_ns
