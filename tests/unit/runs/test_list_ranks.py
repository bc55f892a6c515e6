"""The program that lists ranks on a node; tests/e2e run it in jobs."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from tests.programs import make_program
from tests.stack import CHECKOUT


def test_py_spy_of_the_users_packages_is_copied_out_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mount is one of FUSE, which processes outside of the container may not open."""
    loader = SourceFileLoader("list_ranks", str(CHECKOUT / "src/hpcmod/runs/endings/list-ranks"))
    program = module_from_spec(spec_from_loader("list_ranks", loader))  # type: ignore[arg-type]
    loader.exec_module(program)
    make_program(tmp_path / "nsenter", '#!/bin/sh\necho "$@"\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    rank = {"pid": 999_999_999, "path": "/usr/bin:/user-software/venv/x/bin", "words": ["python"]}
    path, shown = program.find_profiler([rank], "")
    assert shown == "/user-software/venv/x/bin/py-spy"
    copy = Path(path)
    assert copy.read_text().split()[-2:] == ["cat", "/user-software/venv/x/bin/py-spy"]
    assert copy.stat().st_mode & 0o777 == 0o700
    (tmp_path / "nsenter").unlink()
    assert program.find_profiler([rank], "") == ("", "")
