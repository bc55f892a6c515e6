from __future__ import annotations

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.packages.builder import make_builder


def test_pip_is_run_without_the_wrappers_of_a_loaded_module() -> None:
    path = "/sw/x/bin:/usr/bin:/sw/y/bin"
    loaded = make_builder({"PATH": path, "CONTAINERROOT": "/sw/x"}, starts=False)
    assert loaded.environ["PATH"] == "/usr/bin:/sw/y/bin"
    assert make_builder({"PATH": path}, starts=False).environ["PATH"] == path


def test_a_missing_temporary_directory_is_reported() -> None:
    with pytest.raises(LackingError, match="/nowhere: no such directory"):
        make_builder({"TMPDIR": "/nowhere"}, starts=False)
