from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.modules.installed import find_installed, module_trees, read_installed
from hpcmod.modules.remove import make_removal, remove_installation
from hpcmod.modules.values.install_record import SYNTAXES
from tests.installations import install


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("name", ["plain", 'it\'s $HOME "x" [a]{b}\\ c', "ünïcode"])
def test_the_root_of_an_installation_is_read_from_its_modulefile(tmp_path: Path, syntax: str, name: str) -> None:
    root = tmp_path / name / "PyTorch/1"
    found = read_installed(install(tmp_path, "PyTorch/1", syntax, root=root), "PyTorch/1")
    assert found is not None
    assert (found.root, found.image.path, found.image.size) == (root, str(root / "x.sif"), 3)


def test_a_root_that_is_not_ascii_is_read_where_file_names_are(tmp_path: Path) -> None:
    modulefile = install(tmp_path, "PyTorch/1", root=tmp_path / "\u00fcn\u00efcode/PyTorch/1")
    code = f"from hpcmod.modules.installed import *; print(read_installed(Path({str(modulefile)!r}), 'x').image.size)"
    old = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=old, capture_output=True, text=True, check=False)
    assert done.stdout == "3\n", done.stderr


@pytest.mark.parametrize(
    "text",
    ["", "-- a module\n", 'local root = "/x"\n', "-- Written by hpcmod.\n"],
    ids=["empty", "other", "root", "mark"],
)
def test_other_modulefiles_are_none_of_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.lua").write_text(text)
    assert read_installed(tmp_path / "a.lua", "a") is None
    assert read_installed(tmp_path / "none.lua", "none") is None


def test_the_first_tree_wins_and_backups_are_not_modules(tmp_path: Path) -> None:
    for top in ("one", "two"):
        install(tmp_path / top, "PyTorch/1")
    install(tmp_path / "two", "vLLM/2", "Tcl")
    install(tmp_path / "two", "ai/Toy/3")  # of CategorizedModuleNamingScheme
    trees = [tmp_path / top / "modules/all" for top in ("none", "one", "two")]
    (trees[1] / "PyTorch/1.bak_2026").write_text((trees[1] / "PyTorch/1.lua").read_text())
    found = {one.module: one.modulefile.parents[1] for one in find_installed(trees)}
    assert found == {"PyTorch/1": trees[1], "vLLM/2": trees[2], "ai/Toy/3": trees[2] / "ai"}
    assert [one.module for one in find_installed([tmp_path / "two/modules"], "all")] == []  # the records do not say so
    assert [one.module for one in find_installed(trees, "vLLM")] == ["vLLM/2"]
    assert list(find_installed(trees, "../one/modules")) == []


def test_the_trees_are_those_of_the_shell_and_then_of_easybuild(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    environ = {"MODULEPATH": f"/a::{link}:/b:/a", "EASYBUILD_INSTALLPATH": "/i", "HOME": "/h"}
    found = module_trees(environ, without=[tmp_path])
    assert list(map(str, found)) == ["/a", "/b", "/i/modules/all", "/h/.local/easybuild/modules/all"]
    assert module_trees({}) == ()
    lumi = {"EASYBUILD_INSTALLPATH_MODULES": "/m", "EASYBUILD_PREFIX": "/p", "EASYBUILD_SUFFIX_MODULES_PATH": ""}
    assert module_trees(lumi) == (Path("/m"), Path("/p/modules"))


def test_removing_takes_the_module_its_links_and_all_but_the_users_packages(tmp_path: Path) -> None:
    modulefile = install(tmp_path, "PyTorch/1")
    link = tmp_path / "modules/ai/PyTorch/1.lua"
    link.parent.mkdir(parents=True)
    link.symlink_to(modulefile)
    root = tmp_path / "software/PyTorch/1"
    (root / "user-software/venv").mkdir(parents=True)
    (root / "user-software/venv/mine.py").touch()
    install(tmp_path, "PyTorch/2")
    (found,) = find_installed([tmp_path / "modules/ai"])  # where 2 has no link
    remove_installation(found, make_removal(found, with_packages=False), tell=print)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_symlink() or path.is_file()}
    two = {name for name in left if name.startswith(("modules/all/PyTorch/2", "software/PyTorch/2"))}
    assert {"modules/all/PyTorch/2.lua", "software/PyTorch/2/libexec/module.lua"} <= two
    assert left == {"software/PyTorch/1/user-software/venv/mine.py", *two}


def test_without_packages_nothing_is_left(tmp_path: Path) -> None:
    install(tmp_path, "PyTorch/1")
    (tmp_path / "software/PyTorch/1/user-software/venv").mkdir(parents=True)
    (found,) = find_installed([tmp_path / "modules/all"])
    remove_installation(found, make_removal(found, with_packages=False), tell=print)
    assert not (tmp_path / "software/PyTorch").exists()
    assert not (tmp_path / "modules/all/PyTorch").exists()


def test_a_directory_without_a_record_is_not_removed(tmp_path: Path) -> None:
    modulefile = install(tmp_path, "PyTorch/1")
    (tmp_path / "software/PyTorch/1/record.json").write_text('{"module": "Other/1"}')
    found = read_installed(modulefile, "PyTorch/1")
    assert found is not None
    with pytest.raises(BadInputError, match="may belong to something else"):
        make_removal(found, with_packages=True)
    assert modulefile.exists()


def test_keeps_files_that_the_installation_did_not_create(tmp_path: Path) -> None:
    install(tmp_path, "PyTorch/1")
    root = tmp_path / "software/PyTorch/1"
    foreign = [root / "notes.txt", root / "bin/mine", root / "data/record.json"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("not ours")
    (root / "link").symlink_to(tmp_path / "software")
    record = json.loads((root / "record.json").read_text())
    (tmp_path / "elsewhere.sif").write_text("not ours")
    record["image"]["path"] = str(tmp_path / "elsewhere.sif")
    record["files"] |= {"../../../elsewhere.sif": "", "/etc/passwd": ""}
    (root / "record.json").write_text(json.dumps(record))
    (found,) = find_installed([tmp_path / "modules/all"])
    removal = make_removal(found, with_packages=True)
    assert set(removal.kept) == {foreign[1], root / "data", root / "link", foreign[0], root / "x.sif"}
    remove_installation(found, removal, tell=print)
    assert all(path.read_text() == "not ours" for path in (*foreign, tmp_path / "elsewhere.sif"))
    assert (root / "link").is_symlink()
    assert not (root / "record.json").exists() and not (root / "bin/python").exists()


def test_another_users_installation_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "PyTorch/1")
    (found,) = find_installed([tmp_path / "modules/all"])
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    with pytest.raises(BadInputError, match="another user"):
        make_removal(found, with_packages=True)
