from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from hpcmod.check.installation import check_installations, check_recorded, find_damage, verify_installed
from hpcmod.errors import VerificationError
from hpcmod.install.installed import Installed, find_in_tree


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """An installation of Toy 1.0 that is whole."""
    root, tree = tmp_path / "software", tmp_path / "modules"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python").write_text("#!/bin/bash\n")
    (root / "bin" / "python").chmod(0o755)
    image = root / "toy.sif"
    image.write_bytes(b"image")
    known = {"path": str(image), "size": 5, "sha256": hashlib.sha256(b"image").hexdigest()}
    (root / "record.json").write_text(json.dumps({"module": "Toy/1.0", "image": known, "files": ["bin/python"]}))
    (tree / "Toy").mkdir(parents=True)
    (tree / "Toy" / "1.0.lua").write_text(f'-- Written by hpcmod.\nlocal root = "{root}"\n"{tmp_path}/site/toy.sif"\n')
    found = find_in_tree(tree, "Toy/1.0")
    assert found is not None
    return found


def findings(installed: Installed) -> list[str]:
    environ = {"MODULEPATH": str(installed.modulefile.parents[1])}
    return [one.found for one in check_installations(environ)]


def test_a_whole_installation_has_nothing_to_report(installed: Installed) -> None:
    assert find_damage(installed) == ""
    assert findings(installed) == []
    verify_installed(installed)


@pytest.mark.parametrize("damage", ["remove", "not executable"])
def test_a_wrapper_that_is_gone_is_found(installed: Installed, damage: str) -> None:
    wrapper = installed.root / "bin" / "python"
    if damage == "remove":
        wrapper.unlink()
    else:
        wrapper.chmod(0o644)
    assert "bin/python" in find_damage(installed)
    assert len(findings(installed)) == 1


def test_an_image_that_is_gone_is_found_unless_the_site_has_it(installed: Installed, tmp_path: Path) -> None:
    (installed.root / "toy.sif").unlink()
    assert "the image is missing" in find_damage(installed)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "toy.sif").touch()
    assert find_damage(installed) == ""


def test_an_image_of_another_size_is_found(installed: Installed) -> None:
    (installed.root / "toy.sif").write_bytes(b"other image")
    assert "11 bytes" in find_damage(installed)


def test_a_tampered_image_is_a_failed_verification(installed: Installed) -> None:
    image = installed.root / "toy.sif"
    image.write_bytes(b"evil!")
    assert find_damage(installed) == ""  # of the same size, and nothing is read for that
    with pytest.raises(VerificationError, match="as installed, found") as caught:
        verify_installed(installed)
    assert caught.value.exit_code == 4
    with pytest.raises(VerificationError):
        check_recorded(image, hashlib.sha256(b"evil!").hexdigest())


def test_a_file_beside_an_installation_is_none_of_its_record(installed: Installed) -> None:
    check_recorded(installed.root / "other.sif", "0" * 64)
    check_recorded(installed.root / "toy.sif", installed.of_image("sha256"))
