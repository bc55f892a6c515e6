"""Fixtures of all unit tests: a home directory without anything of the user who runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hpcmod.machine import machine
from tests.oci_corpus import CASES, write_case


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True, scope="module")
def hidden_home(empty_home: Path) -> Iterator[None]:
    """Hide installations, profile and cache of the user and the profile of the machine, which commands print."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", os.fspath(empty_home))
        patch.setattr(machine, "SYSTEM_PROFILE", empty_home / "none")
        yield


@pytest.fixture
def image_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images are converted and built in a temporary directory."""
    for variable, name in (("HOME", "home"), ("HPCMOD_CACHE", "cache"), ("HPCMOD_LOCK", "lock")):
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shellcheck(pytestconfig: pytest.Config) -> Callable[..., str]:
    """Return what shellcheck finds in files: `shellcheck(directory, names, *options)`.

    Where it found nothing, it runs again when a file in the directory has changed, or shellcheck itself.
    """
    program, cache = Path(sys.executable).with_name("shellcheck"), getattr(pytestconfig, "cache", None)

    def run(directory: Path, names: Iterable[str], *options: str) -> str:
        argv = [str(program), *options, *names]
        files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
        texts = [(str(path.relative_to(directory)), path.read_bytes()) for path in files]
        state = sha256(repr((program.stat().st_mtime_ns, texts)).encode()).hexdigest()
        key = f"shellcheck/{sha256(repr(argv).encode()).hexdigest()}"
        if cache and cache.get(key, "") == state:
            return ""
        done = subprocess.run(argv, cwd=directory, capture_output=True, text=True)
        if cache and done.returncode == 0:
            cache.set(key, state)
        return done.stdout + done.stderr

    return run


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An OCI layout with one small image."""
    return write_case(tmp_path / "layout", CASES["plain"])
