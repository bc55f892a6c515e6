from __future__ import annotations

import pytest

from hpcmod.core.errors import NotFoundError
from tests.calls import hpcmod


@pytest.mark.parametrize("name", ["Sort", "Sort/1.0"])
def test_the_command_loads_the_container_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADEDMODULES", "Cat/1.0:Sort/1.0:Sorted/2")
    done = hpcmod("use", name)
    assert (done.exit_code, done.stdout) == (0, "module unload Sort/1.0 && module load Sort/1.0\n")


@pytest.mark.parametrize(("loaded", "message"), [("", "loaded are: none"), ("Cat/1.0", "loaded are: Cat/1.0")])
def test_a_container_that_is_not_loaded_is_an_error(loaded: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADEDMODULES", loaded)
    done = hpcmod("use", "Sort")
    assert done.exit_code == NotFoundError.exit_code
    assert message in done.stderr
