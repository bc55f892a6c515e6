from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.modules.installed import Installed
from hpcmod.modules.own_default import mark_default, unmark_default
from hpcmod.modules.values.install_record import NO_RECORD


def copy_of(tree: Path, module: str) -> Installed:
    modulefile = tree / f"{module}.lua"
    modulefile.parent.mkdir(exist_ok=True)
    return Installed(module, modulefile, tree, NO_RECORD)


def test_the_mark_names_the_version_and_moves_to_the_last_one_marked(tmp_path: Path) -> None:
    mark_default(copy_of(tmp_path, "Toy/1.0"))
    mark = tmp_path / "Toy/.modulerc.lua"
    assert 'module_version("Toy/1.0", "default")' in mark.read_text()
    mark_default(copy_of(tmp_path, "Toy/2.0"))
    assert "1.0" not in mark.read_text() and "Toy/2.0" in mark.read_text()


def test_removing_removes_the_mark_of_that_version_only(tmp_path: Path) -> None:
    mark_default(copy_of(tmp_path, "Toy/2.0"))
    unmark_default(copy_of(tmp_path, "Toy/1.0"))
    assert (tmp_path / "Toy/.modulerc.lua").exists()
    unmark_default(copy_of(tmp_path, "Toy/2.0"))
    assert not (tmp_path / "Toy/.modulerc.lua").exists()


@pytest.mark.parametrize("text", ["", 'module_version("Toy/9", "default")\n', "-- mine\n-- of two lines\n"])
def test_a_file_of_another_user_is_left_unchanged(tmp_path: Path, text: str) -> None:
    copy = copy_of(tmp_path, "Toy/1.0")
    (tmp_path / "Toy/.modulerc.lua").write_text(text)
    mark_default(copy)
    unmark_default(copy)
    assert (tmp_path / "Toy/.modulerc.lua").read_text() == text
