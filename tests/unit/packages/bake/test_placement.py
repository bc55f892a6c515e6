from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.images.inspect.contents import BAKED_IN_CONTAINER
from hpcmod.images.squashfs.tree import Node
from hpcmod.packages.bake.placement import _START, find_directory, make_directory


def test_python_finds_the_newest_packages_first_and_then_the_images_own(tmp_path: Path) -> None:
    site, place = tmp_path / "site", tmp_path / "packages"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for number, names in (("1", ("one", "both")), ("2", ("both", "two")), ("10", ("ten", "both"))):
        directory = place / number / "lib" / version / "site-packages"
        directory.mkdir(parents=True)
        for name in names:
            (directory / f"{name}.py").write_text(f"number = {number!r}\n")
    site.mkdir()
    (site / "both.py").write_text("number = 'image'\n")
    (site / "_hpcmod_packages.py").write_text(_START.replace(BAKED_IN_CONTAINER, str(place)))
    (site / "_hpcmod_packages.pth").write_text("import _hpcmod_packages\n")
    program = f"import site; site.addsitedir({str(site)!r}); import both, one, two, ten; print(both.number)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "10\n"


def test_a_directory_is_created_or_an_existing_one_opened() -> None:
    root = Node("dir", 0o755)
    made = make_directory(root, "/opt/a/b")
    assert find_directory(root, "/opt/a/b") is made is make_directory(root, "/opt/a/b")
    root.children[b"file"] = Node("file", 0o644)
    for find in (find_directory, make_directory):
        with pytest.raises(BadInputError):
            find(root, "/file/below")
