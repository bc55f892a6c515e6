from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.packages.bake.packages import open_packages
from tests import corpus


@pytest.mark.parametrize("packed", [False, True])
def test_files_get_root_as_owner_and_are_readable_by_all(tmp_path: Path, packed: bool) -> None:
    top = tmp_path / "packages"
    top.mkdir()
    (top / "program").write_text("x")
    (top / "program").chmod(0o4700)
    (top / "secret").write_text("x")
    (top / "secret").chmod(0o600)
    (top / "link").symlink_to("./a//b")
    with open_packages(corpus.pack(top, tmp_path / "packed.squashfs") if packed else top) as found:
        nodes = found.root.children
        modes = {name: node.mode for name, node in nodes.items()}
        assert modes == {b"program": 0o755, b"secret": 0o644, b"link": 0o777}
        assert nodes[b"link"].target == b"./a//b"
        assert {(node.uid, node.gid) for node in nodes.values()} == {(0, 0)}


def test_a_link_out_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("x")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/out").symlink_to("../outside")
    with open_packages(tmp_path / "packages") as found:
        assert found.root.children[b"out"].kind == "symlink"


def test_refuses_data_that_is_neither_a_directory_nor_a_squashfs(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError), open_packages(tmp_path / "none"):
        pass
    (tmp_path / "text").write_text("x" * 200)
    with pytest.raises(BadInputError, match="no squashfs"), open_packages(tmp_path / "text"):
        pass
