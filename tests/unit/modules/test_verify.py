from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import VerificationError
from hpcmod.modules.installed import Installed, find_in_trees, find_without_modulefile
from hpcmod.modules.verify import check_installation, check_installations, check_recorded, find_damage
from tests.programs import make_program


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """An undamaged installation of Toy 1.0."""
    root, tree = tmp_path / "software/Toy/1.0", tmp_path / "modules"
    (root / "bin").mkdir(parents=True)
    make_program(root / "libexec/wrapper", "#!/bin/bash\n")
    (root / "bin/python").symlink_to("../libexec/wrapper")
    (root / "libexec/module.lua").write_text("return\n")
    image = root / "toy.sif"
    image.write_bytes(b"image")
    modulefile = tree / "Toy" / "1.0.lua"
    text = f'-- Written by hpcmod.\nlocal root = "{root}"\n"{tmp_path}/site/toy.sif"\n'
    modulefile.parent.mkdir(parents=True)
    modulefile.write_text(text)
    known = {"path": str(image), "size": 5, "sha256": sha256("image"), "modified": image.stat().st_mtime_ns}
    record = {
        "module": "Toy/1.0",
        "image": known,
        "files": {"bin/python": sha256("#!/bin/bash\n"), "libexec/module.lua": sha256("return\n")},
        "modulefile": {"path": str(modulefile), "sha256": sha256(text)},
    }
    (root / "record.json").write_text(json.dumps(record))
    found = next(find_in_trees([tree], "Toy/1.0"), None)
    assert found is not None
    return found


def findings(installed: Installed) -> list[str]:
    environ = {"MODULEPATH": str(installed.modulefile.parents[1])}
    return [one.found for one in check_installations(environ)]


def test_a_whole_installation_has_nothing_to_report(installed: Installed) -> None:
    assert find_damage(installed) == ""
    assert findings(installed) == []
    assert verdicts(installed) == {"image": "ok", "scripts": "ok", "modulefile": "ok"}


def verdicts(installed: Installed, *, read_image: bool = True) -> dict[str, str]:
    return {one.subject: one.level for one in check_installation(installed, read_image=read_image)}


def test_a_changed_script_is_found_by_its_checksum(installed: Installed) -> None:
    (installed.root / "bin/python").write_text("#!/bin/sh\n")
    assert "changed since they were installed: bin/python" in find_damage(installed)
    assert verdicts(installed)["scripts"] == "fail"
    found = next(one for one in check_installation(installed) if one.level == "fail")
    assert found.cure == "Repair it: hpcmod repair Toy/1.0"


def test_a_copy_in_place_of_a_link_is_found(installed: Installed) -> None:
    command = installed.root / "bin/python"
    text = command.read_text()
    command.unlink()
    command.write_text(text)
    command.chmod(0o755)
    assert "changed since they were installed: bin/python" in find_damage(installed)


def test_a_modulefile_in_another_syntax_than_the_installation_has_is_found(installed: Installed) -> None:
    copy = installed.modulefile.with_name("1.0")
    copy.write_text(installed.modulefile.read_text())
    damage = find_damage(replace(installed, modulefile=copy))
    assert damage == f"missing or not executable: libexec/module.tcl in {installed.root}"


def test_a_changed_modulefile_is_found(installed: Installed) -> None:
    with installed.modulefile.open("a") as file:
        file.write("-- mine\n")
    assert verdicts(installed) == {"image": "ok", "scripts": "ok", "modulefile": "fail"}


def test_an_interrupted_installation_over_another_is_found(installed: Installed) -> None:
    unfinished = replace(installed, record=replace(installed.record, unfinished=True))
    assert verdicts(unfinished) == {"image": "ok", "scripts": "ok", "modulefile": "fail"}
    assert find_damage(unfinished) == f"the last installation was interrupted: {installed.root}"


def test_a_record_without_checksums_leaves_changes_unknown(installed: Installed) -> None:
    older = replace(installed, record=installed.record.without_checksums())
    (installed.root / "bin/python").write_text("#!/bin/sh\n")
    assert verdicts(older) == {"image": "ok", "scripts": "unknown", "modulefile": "unknown"}
    assert find_damage(older) == ""


def test_a_copied_modulefile_is_not_compared_with_the_original(installed: Installed, tmp_path: Path) -> None:
    copy = tmp_path / "copies/Toy/1.0.lua"
    copy.parent.mkdir(parents=True)
    copy.write_text(installed.modulefile.read_text() + "-- published\n")
    assert verdicts(replace(installed, modulefile=copy))["modulefile"] == "unknown"


def test_a_deleted_modulefile_is_known_from_the_record(installed: Installed, tmp_path: Path) -> None:
    trees = [tmp_path / "modules/all", tmp_path / "modules/elsewhere", tmp_path / "modules/all"]
    assert list(find_without_modulefile(trees, "Toy")) == []
    installed.modulefile.unlink()
    for text in ("", "/", "../Toy", "Toy/../Toy", "/Toy"):
        assert list(find_without_modulefile(trees, text)) == []
    (found,) = find_without_modulefile(trees, "Toy")
    assert (found.module, found.modulefile, found.root) == ("Toy/1.0", installed.modulefile, installed.root)
    assert "the modulefile is missing" in find_damage(found)


@pytest.mark.parametrize("damage", ["remove", "not executable"])
def test_a_deleted_wrapper_is_found(installed: Installed, damage: str) -> None:
    wrapper = installed.root / "bin" / "python"
    if damage == "remove":
        wrapper.unlink()
    else:
        wrapper.chmod(0o644)
    assert "bin/python" in find_damage(installed)
    assert len(findings(installed)) == 1


def test_a_deleted_image_is_found_unless_the_site_has_it(installed: Installed, tmp_path: Path) -> None:
    (installed.root / "toy.sif").unlink()
    assert "the image is missing" in find_damage(installed)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "toy.sif").touch()
    assert find_damage(installed) == ""


def test_an_image_of_another_size_is_found(installed: Installed) -> None:
    (installed.root / "toy.sif").write_bytes(b"other image")
    assert "11 bytes" in find_damage(installed)


def test_a_tampered_image_of_the_same_size_is_found(installed: Installed) -> None:
    image = installed.root / "toy.sif"
    image.write_bytes(b"evil!")
    assert find_damage(installed) == ""  # only the size is checked, without reading the file
    assert verdicts(installed)["image"] == "fail"
    with pytest.raises(VerificationError, match="as installed, found") as caught:
        check_recorded(image, sha256("evil!"))
    assert caught.value.exit_code == 4


def test_an_image_is_read_if_it_was_modified(installed: Installed) -> None:
    image = installed.root / "toy.sif"
    image.write_bytes(b"evil!")
    os.utime(image, ns=(0, installed.image.modified))
    assert verdicts(installed, read_image=False)["image"] == "ok"
    os.utime(image)
    assert verdicts(installed, read_image=False)["image"] == "fail"


def test_a_file_next_to_an_installation_is_not_in_its_record(installed: Installed) -> None:
    check_recorded(installed.root / "other.sif", "0" * 64)
    check_recorded(installed.root / "toy.sif", installed.image.sha256)
