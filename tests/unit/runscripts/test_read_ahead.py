"""The parent of forked ranks has the libraries of packages read while Python imports."""

from __future__ import annotations

import os
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from hpcmod.resources import runscript_templates

FILES = {
    "__init__.py": "1 / 0\n",
    "_c.so": "x" * 300,
    "lib/libb.so": "y" * 500,
    "lib/liba.so": "z" * 300,
    "lib/a.txt": "t",
}


@pytest.fixture
def fork(tmp_path: Path) -> ModuleType:
    path = tmp_path / "fork_ranks.py"
    path.write_text(runscript_templates()["_fork-ranks.py.j2"])
    module = ModuleType("fork_ranks")
    SourceFileLoader("fork_ranks", str(path)).exec_module(module)
    return module


def read(fork: ModuleType, monkeypatch: pytest.MonkeyPatch, modules: list[str]) -> list[str]:
    """Return the names of the files that the kernel is asked to read whole, in order."""
    asked = []

    def advise(descriptor: int, *what: int) -> None:
        assert what == (0, 0, os.POSIX_FADV_WILLNEED)
        asked.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(os, "posix_fadvise", advise)
    before = len(list(Path("/proc/self/fd").iterdir()))
    fork.read_ahead(modules)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    return asked


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "torchlike" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "torchlike"


def test_the_libraries_of_a_package_are_read_without_importing_it(
    fork: ModuleType, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = ["torchlike.nn", "torchlike", "json", "sys", "no_such_package"]
    assert read(fork, monkeypatch, modules) == ["_c.so", "liba.so", "libb.so"]


def test_a_library_that_exceeds_the_limit_is_left_to_the_import(
    fork: ModuleType, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork, "READ_AHEAD", 700)
    (package / "lib" / "libc.so").write_text("c" * 100)
    assert read(fork, monkeypatch, ["torchlike"]) == ["_c.so", "liba.so", "libc.so"]


def test_a_library_that_cannot_be_read_does_not_stop_the_start(
    fork: ModuleType, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "_c.so").unlink()
    (package / "_c.so").symlink_to("gone")
    os.mkfifo(package / "lib" / "aa.so")
    assert read(fork, monkeypatch, ["torchlike"]) == ["liba.so", "libb.so"]
