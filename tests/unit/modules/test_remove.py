from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.modules.installed import find_installed
from hpcmod.modules.remove import make_removal, prune_prefix, remove_installation
from tests.installations import install


def test_a_prefix_in_use_and_files_of_others_stay(tmp_path: Path) -> None:
    for name in ("used/software/PyTorch/2", "used/build", "mine/modules/all", "mine/software/.locks", "mine/build"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "mine/build/log").touch()
    (tmp_path / "mine/sources").symlink_to(tmp_path / "used")  # by a member of a group
    for name in ("used", "mine"):
        prune_prefix(tmp_path / name / "software")
    assert (tmp_path / "used/build").is_dir()
    assert sorted(path.name for path in (tmp_path / "mine").rglob("*")) == ["build", "log", "sources"]


@pytest.mark.parametrize("added", [(), ("share/docker-defs/mine.def",), ("share/doc/mine.txt",)])
def test_the_definition_of_the_image_is_removed_and_what_others_added_beside_it_is_kept(
    tmp_path: Path, added: tuple[str, ...]
) -> None:
    install(tmp_path, "PyTorch/1")
    (found,) = find_installed([tmp_path / "modules/all"])
    definition = found.root / "share/docker-defs" / f"{Path(found.image.path).stem}.def"
    for path in (definition, *(found.root / name for name in added)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    remove_installation(found, make_removal(found, with_packages=False), tell=print)
    assert not definition.exists()
    assert [path.relative_to(found.root) for path in found.root.rglob("*") if path.is_file()] == [*map(Path, added)]


@pytest.mark.parametrize("is_link", [True, False])
@pytest.mark.parametrize("name", ["bin/mine", "1.lua"], ids=["installation", "modules"])
def test_nothing_is_removed_from_a_directory_that_took_the_place_of_ours(
    tmp_path: Path, name: str, is_link: bool
) -> None:
    modulefile = install(tmp_path, "PyTorch/1")
    (found,) = find_installed([tmp_path / "modules/all"])
    removal = make_removal(found, with_packages=False)
    place, mine = (modulefile.parent if name == "1.lua" else found.root), tmp_path / "home" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "home") if is_link else (tmp_path / "home").rename(place)
    with pytest.raises(BadInputError, match="was exchanged"):
        remove_installation(found, removal, tell=print)
    assert (place / name).read_text() == "mine"
    assert modulefile.exists() and found.root.exists()


def test_a_link_that_is_no_longer_a_link_is_kept(tmp_path: Path) -> None:
    modulefile = install(tmp_path, "PyTorch/1")
    link = tmp_path / "modules/ai/PyTorch" / modulefile.name
    link.parent.mkdir(parents=True)
    link.symlink_to(modulefile)
    (found,) = find_installed([tmp_path / "modules/all"])
    removal = make_removal(found, with_packages=False)
    link.unlink()
    link.write_text("mine")
    remove_installation(found, removal, tell=print)
    assert not modulefile.exists()
    assert link.read_text() == "mine"
