from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BusyError
from hpcmod.core.fs.anchored import anchored_at, renamed_in_errors


def test_a_file_is_reached_where_its_directory_was(tmp_path: Path) -> None:
    path = tmp_path / "locks/x"
    with anchored_at(path, tmp_path) as anchored:
        path.parent.rename(tmp_path / "former")
        path.parent.mkdir()
        anchored.write_text("text")
    assert (tmp_path / "former/x").read_text() == "text"
    assert list(path.parent.iterdir()) == []


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "locks").symlink_to(tmp_path)
    with pytest.raises(OSError, match="symbolic link"), anchored_at(tmp_path / "locks/x", tmp_path):
        pass


@pytest.mark.parametrize("fault", [BusyError("/proc/self/fd/9/x is held"), OSError(2, "missing", "/proc/self/fd/9/x")])
def test_errors_name_the_path_of_the_user(fault: Exception) -> None:
    with pytest.raises(type(fault), match="/shared/x"), renamed_in_errors(Path("/proc/self/fd/9/x"), Path("/shared/x")):
        raise fault
