"""Order of copies without a module tool; tests/integration/test_which_copy.py asks the real module tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.catalogue.finding.copies import find_copies, find_loaded_by, loading_commands

TOY = "Toy/1.0"


@pytest.fixture
def trees(tmp_path: Path) -> list[Path]:
    """Two directories of modulefiles, each with Toy 1.0."""
    found = [tmp_path / name / "modules" for name in ("own", "site")]
    for tree in found:
        (tree / "Toy").mkdir(parents=True)
        root = tree.parent / "software"
        root.mkdir()
        (tree / f"{TOY}.lua").write_text(f'-- Written by hpcmod.\nlocal root = "{root}"\n')
    return found


def test_without_a_module_tool_the_first_directory_has_priority(trees: list[Path]) -> None:
    for order in (trees, trees[::-1]):
        copies = find_copies(TOY, order, {})
        assert copies is not None
        assert copies.meant.modulefile.parents[1] == order[0]
        assert [one.modulefile.parents[1] for one in copies.others] == [order[1]]


def test_a_directory_named_twice_is_not_a_second_copy(trees: list[Path]) -> None:
    copies = find_copies(TOY, [trees[0], trees[0]], {})
    assert copies is not None and copies.others == ()


@pytest.mark.parametrize("gone", [0, 1])
def test_a_copy_without_its_installation_is_still_listed(trees: list[Path], gone: int) -> None:
    (trees[gone].parent / "software").rmdir()
    copies = find_copies(TOY, trees, {})
    assert copies is not None and len(copies.others) == 1


def test_a_container_that_is_not_installed_has_no_copies(trees: list[Path]) -> None:
    assert find_copies("Toy/2.0", trees, {}) is None
    assert find_loaded_by("Toy", {}) is None


def test_a_copy_is_loaded_from_its_directory(trees: list[Path]) -> None:
    copies = find_copies(TOY, trees, {})
    assert copies is not None
    load = ("module", "load", TOY)
    assert loading_commands(copies.meant, {}) == (("module", "use", str(trees[0])), load)
    assert loading_commands(copies.meant, {"MODULEPATH": f"/x:{trees[0]}"}) == (load,)
