"""Small programs that stand for others in tests."""

from __future__ import annotations

from pathlib import Path


def make_program(path: Path, text: str) -> Path:
    """Write an executable file, and the directory that contains it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # other tests may have a hard link to it
    path.write_text(text)
    path.chmod(0o755)
    return path
