"""Copy the files of a checkout to a directory that the worker can read: copy_checkout.py FROM TO [OWNER].

Root's checkout may be in a directory that only root can read. The copy is updated in place, each file by a rename, so
that a test run that is still reading it never sees a partial file.
"""

from __future__ import annotations

import filecmp
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = {".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "build", "dist"}


def read_names(top: Path) -> list[str]:
    """List the files git knows or would add; without git, all files but caches."""
    # safe.directory: the checkout may belong to another user than root
    argv = ["git", "-c", "safe.directory=*", "-C", str(top), "ls-files", "-coz", "--exclude-standard"]
    try:
        out = subprocess.run(argv, capture_output=True, check=True, text=True).stdout
        return [name for name in out.split("\0") if name and (top / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        files = (path.relative_to(top) for path in top.rglob("*") if path.is_file())
        return [str(name) for name in files if not SKIPPED & set(name.parts)]


def copy_file(source: Path, target: Path) -> None:
    """Copy one file, unless the target already has the same bytes and mode."""
    same_mode = target.is_file() and target.stat().st_mode == source.stat().st_mode
    if same_mode and filecmp.cmp(source, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copy2(source, partial)
    partial.replace(target)


def remove_others(top: Path, names: set[str]) -> None:
    """Remove files that are no longer in the checkout; keep the tools' caches."""
    for path in list(top.rglob("*")):
        name = path.relative_to(top)
        made_here = SKIPPED & set(name.parts) or any(part.endswith(".egg-info") for part in name.parts)
        if path.is_file() and not made_here and str(name) not in names:
            path.unlink()


def give_away(top: Path, owner: str) -> None:
    """Change the owner of everything, because the owner's tools write caches next to the files."""
    ids = pwd.getpwnam(owner)
    for path in (top, *top.rglob("*")):
        os.chown(path, ids.pw_uid, ids.pw_gid, follow_symlinks=False)


def main() -> None:
    """Update TO from FROM."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    names = read_names(source)
    target.mkdir(exist_ok=True)
    for name in names:
        copy_file(source / name, target / name)
    remove_others(target, set(names))
    for owner in sys.argv[3:]:
        give_away(target, owner)


if __name__ == "__main__":
    main()
