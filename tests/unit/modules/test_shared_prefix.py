"""Moving an installation from the private directory of `eb` to a prefix that others can write to."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from hpcmod.core.errors import BusyError, LackingError
from hpcmod.modules import shared_prefix
from hpcmod.modules.shared_prefix import (
    SharedPrefix,
    first_shared,
    install_with_eb,
    others_may_replace,
    read_shared_prefix,
    sharing,
)
from tests.programs import make_program


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A directory that a group can write to."""
    path = tmp_path / "project"
    path.mkdir()
    path.chmod(0o2775)
    return path


@pytest.fixture
def shared(prefix: Path, tmp_path: Path) -> Iterator[SharedPrefix]:
    with sharing((prefix / "software", prefix / "modules"), {"HOME": str(tmp_path / "home")}) as found:
        assert found
        make_private(found)
        yield found


def make_private(shared: SharedPrefix) -> None:
    """Write the files that `eb` would write, and the image, which the easyblock puts directly into its final place."""
    root = shared.now(f"{shared.software}/Toy/1")
    for directory in (root / "bin", root / "easybuild", shared.now(f"{shared.modules}/all/Toy")):
        directory.mkdir(parents=True)
    make_program(root / "bin/python", f"exec {root}/runscripts/python\n")
    module = shared.now(f"{shared.modules}/all/Toy/1.lua")
    module.write_text(f'local root = "{root}"\n')
    link = shared.now(f"{shared.modules}/ai/Toy/1.lua")
    link.parent.mkdir(parents=True)
    link.symlink_to(module)
    own = shared.final(root) / "toy.sif"
    with shared.anchored(own) as image:
        image.write_bytes(b"an image")
    (root / "toy.sif").symlink_to(own)
    write_record(shared, str(own), own.stat().st_mtime_ns)


def write_record(shared: SharedPrefix, image: str, modified: int) -> None:
    root = shared.now(f"{shared.software}/Toy/1")
    record = {
        "module": "Toy/1",
        "files": {"bin/python": "of the private one"},
        "image": {"path": image, "size": 8, "modified": modified},
        "modulefile": {"path": str(shared.now(f"{shared.modules}/all/Toy/1.lua")), "sha256": "likewise"},
    }
    (root / "record.json").write_text(json.dumps(record))


def place(shared: SharedPrefix) -> Path:
    shared.place(print)
    return Path(shared.software, "Toy/1")


def test_files_and_modules_are_copied_with_their_final_paths_and_checksums(shared: SharedPrefix, prefix: Path) -> None:
    for _ in range(2):
        root = place(shared)
    assert (root / "bin/python").read_text() == f"exec {root}/runscripts/python\n"
    assert stat.S_IMODE((root / "bin/python").stat().st_mode) == 0o755
    module = prefix / "modules/all/Toy/1.lua"
    assert module.read_text() == f'local root = "{root}"\n'
    assert (prefix / "modules/ai/Toy/1.lua").readlink() == module
    record = json.loads((root / "record.json").read_text())
    assert record["files"] == {"bin/python": hashlib.sha256((root / "bin/python").read_bytes()).hexdigest()}
    assert record["modulefile"] == {"path": str(module), "sha256": hashlib.sha256(module.read_bytes()).hexdigest()}
    assert (root / "toy.sif").read_bytes() == b"an image"
    assert not (root / "toy.sif").is_symlink()


@pytest.mark.parametrize("name", ["software", "software/Toy", "software/Toy/1/bin", "modules", "modules/all/Toy"])
def test_nothing_is_written_behind_a_link(shared: SharedPrefix, prefix: Path, tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    if (prefix / name).exists():
        (prefix / name).rename(prefix / "moved")
    (prefix / name).parent.mkdir(parents=True, exist_ok=True)
    (prefix / name).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        place(shared)
    assert list(precious.iterdir()) == []


def test_no_link_is_followed_that_replaces_the_prefix(shared: SharedPrefix, prefix: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    tmp_path.chmod(0o2775)
    with sharing((prefix / "software", prefix / "modules"), {"HOME": str(tmp_path / "home")}) as other:
        assert other is None  # the home directory is writable by others, too: a private directory in it would not help
    above = SharedPrefix(**{**shared.__dict__, "top": str(tmp_path)})
    prefix.rename(tmp_path / "moved")
    prefix.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        place(above)
    assert list(precious.iterdir()) == []


@pytest.mark.parametrize("name", ["", "bin"])
def test_nothing_is_written_into_an_own_directory_that_others_renamed(shared: SharedPrefix, name: str) -> None:
    root = Path(shared.software, "Toy/1")
    root.chmod(0o2775)
    if name:
        (root / name).mkdir(mode=0o755)
        (root / name).chmod(0o755)
        (root / name / "python").write_text("mine")
    (root / name / "thesis.txt").write_text("mine")
    with pytest.raises(LackingError, match="did not install"):
        place(shared)
    assert (root / name / "thesis.txt").read_text() == "mine"
    assert not (root / "record.json").exists()


def test_an_image_that_another_process_exchanged_is_an_error(shared: SharedPrefix) -> None:
    write_record(shared, f"{shared.software}/Toy/1/toy.sif", 1)
    with pytest.raises(BusyError, match="another process"):
        place(shared)


def test_an_own_copy_is_removed_if_the_site_has_the_image(shared: SharedPrefix) -> None:
    write_record(shared, "/appl/images/toy.sif", 1)
    root = place(shared)
    assert (sorted(path.name for path in root.iterdir())) == ["bin", "easybuild", "record.json"]


def test_only_a_prefix_that_others_may_write_is_shared(prefix: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    prefix.chmod(0o755)
    with sharing((prefix / "software", prefix / "modules"), environ) as found:
        assert found is None
    (prefix / "modules/all").mkdir(parents=True)
    (prefix / "modules/all").chmod(0o775)
    with sharing((prefix / "software", prefix / "modules"), environ) as found:
        assert found
        assert found.top == str(prefix)
        private = Path(found.private)
        assert private.is_dir()
    assert not private.exists()


def test_eb_writes_to_the_private_directory(shared: SharedPrefix, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def call(arguments: Sequence[str], environ: Mapping[str, str], **_: object) -> int:
        ran.append((arguments, environ))
        return 0

    monkeypatch.setattr(shared_prefix, "call_eb", call)
    prefix, modules = shared.prefix, f"{shared.prefix}/modules"
    given = ["a.eb", f"--prefix={prefix}", f"--installpath-modules={modules}"]
    assert install_with_eb(given, {"MODULEPATH": "/m"}, shared, tell=print) == 0
    [(arguments, environ)] = ran
    private = shared.private
    assert arguments[:4] == [
        *("a.eb", f"--prefix={private}{prefix}", f"--installpath-modules={private}{modules}"),
        f"--sourcepath={prefix}/sources",
    ]
    assert environ["MODULEPATH"] == f"{modules}/all:/m"
    assert read_shared_prefix(environ) == shared
    assert read_shared_prefix({}) is None
    assert Path(shared.software, "Toy/1/record.json").is_file()
    assert shared.arguments(given, {"EASYBUILD_SOURCEPATH": "/s"})[3] == f"--buildpath={private}/build"


def test_directories_above_count_too(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    assert not others_may_replace(tmp_path / "a/b/file")
    (tmp_path / "a").chmod(0o775)
    assert others_may_replace(tmp_path / "a/b/file")
    (tmp_path / "a").chmod(0o1777)
    assert not others_may_replace(tmp_path / "a/b/file")


def test_the_target_of_a_link_counts(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o777)
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "link").symlink_to("shared")
    assert others_may_replace(tmp_path / "link/file")


def test_the_first_directory_that_others_may_write_is_found(tmp_path: Path) -> None:
    below = tmp_path / "open/closed"
    below.mkdir(parents=True)
    assert first_shared(below / "new/x") is None
    (tmp_path / "open").chmod(0o2775)
    (tmp_path / "link").symlink_to(below)
    assert first_shared(tmp_path / "link/new") == tmp_path / "open"
    (tmp_path / "open").chmod(0o1777)
    assert first_shared(below) is None
