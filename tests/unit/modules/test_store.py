from __future__ import annotations

import hashlib
import json
import platform
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcmod import __version__
from hpcmod.core.errors import CheckFailedError, HpcmodError, LackingError, UntrustedError, VerificationError
from hpcmod.core.resources import runscript_files
from hpcmod.core.values.facts import ImageFacts, Package, PythonFacts, architecture_name
from hpcmod.images import Sif
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Images
from hpcmod.modules import store
from hpcmod.modules.store import (
    InstalledImage,
    VerifiedSif,
    Ways,
    install,
    install_files,
    install_image,
    write_definition,
)
from hpcmod.modules.values.install_record import NO_RECORD, Fit, InstalledModule, is_started
from hpcmod.modules.values.plan import ContainerSettings, InstallPlan, make_plan
from hpcmod.modules.values.spec import OWN_COMMANDS, InstallSpec
from tests import corpus
from tests.lustre import pretend_lustre

FACTS = ImageFacts(
    "amd64", 1, PythonFacts("/opt/bin/python3.12", "3.12", "/opt"), (Package("torch", "2.7.1"),), ("python", "torchrun")
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def central(tmp_path: Path) -> Path:
    central = tmp_path / "central"
    central.mkdir()
    return central


@pytest.fixture
def plan(root: Path, central: Path) -> InstallPlan:
    spec = InstallSpec("PyTorch", "PyTorch/2.7.1", "PYTORCH", str(root), "torch.sif", "PyTorch-2.7.1.eb")
    return make_plan(FACTS, Site("x1", images=Images(central=(str(central),))), spec)


@pytest.fixture
def image(central: Path) -> Path:
    return corpus.make_sif(central / "torch.sif", b"hsqs" + bytes(range(256)) * 64)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def source(path: Path, **changes: object) -> VerifiedSif:
    return replace(VerifiedSif(path, sha256(path), "amd64"), **changes)


def no_proof(path: Path) -> None:
    raise AssertionError(f"nothing is replaced, so {path} needs no proof")


def put(plan: InstallPlan, source: VerifiedSif, **ways: Any) -> InstalledImage:
    """Put an image in place; nothing is replaced unless a proof is given."""
    return install_image(plan, source, Ways(**{"prove": no_proof, **ways}))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def other_image(tmp_path: Path) -> Path:
    (tmp_path / "new").mkdir()
    return corpus.make_sif(tmp_path / "new" / "torch.sif", b"hsqs" + bytes(8192))


def test_a_first_image_is_copied_and_its_digest_reported(plan: InstallPlan, root: Path, image: Path) -> None:
    done = put(plan, source(image))
    assert (done.path, done.sha256, done.source) == (str(root / "torch.sif"), sha256(image), str(image))
    assert (root / "torch.sif").read_bytes() == image.read_bytes()
    assert done.size == image.stat().st_size
    assert names(root) == ["torch.sif"]


def test_the_definition_in_an_image_is_written_where_lumis_modules_have_it(
    plan: InstallPlan, root: Path, image: Path
) -> None:
    write_definition(plan, image)
    assert (root / "share/docker-defs/torch.def").read_bytes() == Sif(image).definition() != b""


@pytest.mark.parametrize("status", [0, 22])
def test_an_image_is_striped_as_the_profile_says_before_it_is_written_and_installed_if_it_cannot_be(
    *, plan: InstallPlan, root: Path, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    log, said = pretend_lustre(monkeypatch, tmp_path / "lustre", status=status, error="invalid"), list[str]()
    site = plan.site._replace(images=Images(striping="-c 800 -S 4M"))
    plan = replace(plan, runscripts=plan.runscripts._replace(site=site))
    put(plan, source(image), tell=said.append)
    put(plan, source(image), tell=said.append)  # the image stays
    (line,) = log.read_text().splitlines()
    assert line.startswith("setstripe -c 800 -S 4M /proc/") and line.endswith(": ")  # a private, empty directory
    failed = "the image gets the default layout of Lustre, because lfs setstripe -c 800 -S 4M failed: invalid"
    assert (names(root), said) == (["torch.sif"], [failed] if status else [])


def test_a_hard_link_writes_nothing(plan: InstallPlan, root: Path, image: Path) -> None:
    done = put(replace(plan, image_mode="link"), source(image))
    assert (done.method, done.bytes_written) == ("hardlink", 0)
    assert (root / "torch.sif").samefile(image)


def test_a_central_image_is_used_in_place_and_the_private_copy_stays_until_the_module_is_there(
    plan: InstallPlan, root: Path, image: Path
) -> None:
    (root / "torch.sif").write_text("former")
    plan = replace(plan, image_mode="central")
    proven: list[Path] = []
    done = put(plan, source(image), prove=proven.append)
    assert (done.method, done.path, done.sha256, done.bytes_written) == ("central", str(image), sha256(image), 0)
    assert proven == [image]
    assert names(root) == ["torch.sif"]
    for _ in range(2):  # a missing copy is not a fault
        store.remove_own_copy(plan)
        assert names(root) == []


def test_an_image_that_the_module_would_not_find_is_not_used_in_place(
    plan: InstallPlan, root: Path, tmp_path: Path
) -> None:
    (root / "torch.sif").write_text("former")
    with pytest.raises(HpcmodError):
        asked = replace(plan, image_mode="central", spec=replace(plan.spec, install_mode="central"))
        put(asked, source(other_image(tmp_path)), prove=lambda _: None)
    assert (root / "torch.sif").read_text() == "former"


def test_a_site_that_uses_images_in_place_has_one_from_elsewhere_copied(
    plan: InstallPlan, root: Path, tmp_path: Path
) -> None:
    image = other_image(tmp_path)
    done = put(replace(plan, image_mode="central"), source(image), prove=lambda _: None)
    assert done.path == str(root / "torch.sif")
    assert (root / "torch.sif").read_bytes() == image.read_bytes()


def test_the_same_file_that_will_be_used_is_verified_before_it_has_its_name(
    plan: InstallPlan, root: Path, image: Path
) -> None:
    seen: list[Path] = []

    def refuse(path: Path) -> None:
        seen.append(path)
        raise UntrustedError("no")

    with pytest.raises(UntrustedError):
        put(plan, source(image, verify=refuse))
    assert [path.name for path in seen] == ["torch.sif"]
    assert seen != [root / "torch.sif"]
    assert names(root) == []
    put(plan, source(image))
    for mode, used in (("copy", root / "torch.sif"), ("central", image)):
        with pytest.raises(UntrustedError):
            put(replace(plan, image_mode=mode), source(image, verify=refuse))
        assert seen[-1] == used


@pytest.mark.parametrize("checksum", [True, False], ids=["with a checksum", "without"])
def test_an_unchanged_image_is_kept_as_the_same_file(
    plan: InstallPlan, root: Path, image: Path, checksum: bool
) -> None:
    put(plan, source(image))
    before = (root / "torch.sif").stat()
    wanted = source(image) if checksum else source(image, checksum=None)
    done = put(plan, wanted)
    assert (done.method, done.bytes_written, done.sha256) == ("kept", 0, sha256(image))
    after = (root / "torch.sif").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_an_image_of_the_same_size_with_other_bytes_is_replaced(plan: InstallPlan, root: Path, image: Path) -> None:
    put(plan, source(image))
    corpus.flip_byte(root / "torch.sif")
    done = put(plan, source(image), prove=lambda _: None)
    assert done.method != "kept"
    assert sha256(root / "torch.sif") == sha256(image)


def test_an_image_that_replaces_another_is_proven_under_its_temporary_name_first(
    plan: InstallPlan, root: Path, image: Path, tmp_path: Path
) -> None:
    put(plan, source(image))
    new = other_image(tmp_path)
    seen: list[tuple[bool, bool]] = []
    put(
        plan,
        source(new),
        prove=lambda path: seen.append((sha256(path) == sha256(new), sha256(root / "torch.sif") == sha256(image))),
    )
    assert seen == [(True, True)]
    assert sha256(root / "torch.sif") == sha256(new)


def test_an_image_whose_proof_fails_leaves_the_old_one(
    plan: InstallPlan, root: Path, image: Path, tmp_path: Path
) -> None:
    def refuse(path: Path) -> None:
        raise CheckFailedError(f"{path} does not start")

    put(plan, source(image))
    with pytest.raises(CheckFailedError):
        put(plan, source(other_image(tmp_path)), prove=refuse)
    assert sha256(root / "torch.sif") == sha256(image)
    assert names(root) == ["torch.sif"]


@pytest.mark.parametrize("mode", ["copy", "link", "central"])
@pytest.mark.parametrize(("make", "code", "words"), corpus.BROKEN, ids=[make.__name__ for make, _, _ in corpus.BROKEN])
@pytest.mark.slow
def test_no_broken_image_is_installed_in_any_mode(
    make: Callable[[Path], Path], code: int, words: str, mode: str, plan: InstallPlan, root: Path, tmp_path: Path
) -> None:
    (root / "torch.sif").write_text("old")
    broken = make(tmp_path / "broken.sif")
    with pytest.raises(HpcmodError) as caught:
        put(replace(plan, image_mode=mode), source(broken))
    assert (caught.value.exit_code, words in caught.value.message) == (code, True), caught.value.message
    assert (root / "torch.sif").read_text() == "old"
    assert names(root) == ["torch.sif"]


@pytest.mark.parametrize("mode", ["copy", "link", "central"])
def test_an_image_of_another_checksum_or_for_another_machine_is_refused_and_changes_nothing(
    plan: InstallPlan, root: Path, image: Path, mode: str
) -> None:
    plan, wrong = replace(plan, image_mode=mode), source(image, checksum="0" * 64)
    with pytest.raises(LackingError, match="amd64"):
        put(plan, source(image, architecture="arm64"))
    with pytest.raises(VerificationError, match="sha256"):
        install(plan, wrong, Ways())
    assert names(root) == []
    (root / "torch.sif").write_text("former")
    with pytest.raises(VerificationError, match="sha256"):
        put(plan, wrong)
    assert (root / "torch.sif").read_text() == "former"


def test_progress_of_a_copy_is_reported_to_the_end(plan: InstallPlan, image: Path) -> None:
    told: list[tuple[int, int]] = []
    put(plan, source(image), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (image.stat().st_size, image.stat().st_size)


def test_scripts_are_written_executable_and_listed(plan: InstallPlan, root: Path) -> None:
    written = install_files(plan, runscript_files())
    assert {"runscripts/conda-python-simple", "bin/python", "bin/torchrun", "bin/start-shell"} <= set(written)
    for name, sha256 in written.items():
        assert hashlib.sha256((root / name).read_bytes()).hexdigest() == sha256
        program = is_started(name) or name.startswith("bin/")
        assert stat.S_IMODE((root / name).stat().st_mode) == (0o755 if program else 0o644), name
        if (root / name).read_bytes().startswith(b"#!/bin/bash") or name.endswith(".bash"):
            assert subprocess.run(["bash", "-n", root / name], check=False).returncode == 0
    top = ["README", "bin", "environment.sh", "in-environment", "libexec", "runscripts", "user-software"]
    assert names(root) == top
    assert str((root / "bin/python").readlink()) == "../libexec/wrapper"


def test_files_are_the_listed_ones_and_no_others(plan: InstallPlan, root: Path) -> None:
    written = install_files(plan, runscript_files())
    files = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    assert sorted(written) == sorted(str(path) for path in files if path.parts[0] != "user-software")
    assert set(names(root / "bin")) - {*plan.commands} == OWN_COMMANDS


def test_files_of_an_earlier_installation_go_and_those_of_the_user_stay(plan: InstallPlan, root: Path) -> None:
    written = install_files(plan, runscript_files())
    store.write_record(plan, InstalledImage("a", "b", 1, "c", "copy", 1), written)
    (root / "bin" / "mine").write_text("keep")
    install_files(replace(plan, commands=("python",)), runscript_files())
    packing = ["list-packages", "make-squashfs", "unmake-squashfs"]
    assert names(root / "bin") == sorted(["apptainer", "mine", "python", "singularity", "start-shell", *packing])


def test_without_bash_in_the_image_only_scripts_for_the_host_are_installed(plan: InstallPlan, root: Path) -> None:
    install_files(
        replace(plan, runscripts=plan.runscripts._replace(container=ContainerSettings(has_bash=False))),
        runscript_files(),
    )
    assert {"get-master", "init-conda-venv", "stage-image"} <= set(names(root / "runscripts"))
    assert not {"conda-python-simple", "run-in-env"} & set(names(root / "runscripts"))
    assert not {"start-shell", "list-packages"} & set(names(root / "bin"))


def in_syntaxes(plan: InstallPlan, *syntaxes: str) -> InstallPlan:
    return replace(plan, spec=replace(plan.spec, syntaxes=syntaxes))


def logic(root: Path) -> set[str]:
    return {path.name for path in (root / "libexec").iterdir() if path.suffix in (".lua", ".tcl")}


def test_only_the_logic_of_the_modulefile_is_installed(plan: InstallPlan, root: Path) -> None:
    install_files(in_syntaxes(plan, "Lua"), runscript_files())
    assert logic(root) == {"module.lua", "files.lua", "variables.lua"}
    install_files(replace(in_syntaxes(plan, "Lua"), notice_places=("/shop/notices/all",)), runscript_files())
    assert logic(root) == {"module.lua", "files.lua", "variables.lua", "notices.lua"}
    install_files(in_syntaxes(plan, "Tcl", "Lua"), runscript_files())
    assert {"module.lua", "module.tcl", "utf-8.tcl"} < logic(root)


def test_a_modulefile_in_the_other_syntax_gets_its_logic_in_a_read_only_installation(
    plan: InstallPlan, root: Path
) -> None:
    written = install_files(in_syntaxes(plan, "Lua"), runscript_files())
    store.write_record(plan, InstalledImage("a", "b", 1, "c", "copy", 1), written)
    for directory in (root / "libexec", root):
        directory.chmod(0o555)
    store.add_logic(in_syntaxes(plan, "Tcl", "Lua"), runscript_files())
    added = dict(store.read_record(root).files).keys() - written.keys()
    assert added == {f"libexec/{name}" for name in logic(root) if name.endswith(".tcl")} != set()
    assert stat.S_IMODE((root / "libexec").stat().st_mode) == 0o555
    before = (root / "record.json").stat().st_ino
    store.add_logic(in_syntaxes(plan, "Tcl", "Lua"), runscript_files())
    assert (root / "record.json").stat().st_ino == before


def test_nothing_is_added_to_an_installation_of_someone_else(
    plan: InstallPlan, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = install_files(in_syntaxes(plan, "Lua"), runscript_files())
    store.write_record(plan, InstalledImage("a", "b", 1, "c", "copy", 1), written)
    monkeypatch.setattr("hpcmod.modules.store.os.geteuid", lambda: 4242)
    store.add_logic(in_syntaxes(plan, "Tcl"), runscript_files())
    assert "module.tcl" not in logic(root)


def test_logic_is_not_added_without_an_installation(plan: InstallPlan, root: Path) -> None:
    store.add_logic(plan, runscript_files())
    assert names(root) == []


@pytest.mark.parametrize(
    "name", ["../outside", "bin/../../outside", "record.json", "user-software/venv", "outside", ""]
)
def test_a_record_cannot_have_anything_else_removed(plan: InstallPlan, root: Path, name: str) -> None:
    (root.parent / "outside").write_text("keep")
    (root / "outside").write_text("keep")
    (root / "record.json").write_text(json.dumps({"files": {name: ""}}))
    install_files(plan, runscript_files())
    assert (root.parent / "outside").exists()
    assert (root / "outside").exists()
    assert (root / "record.json").exists()


def test_the_record_says_what_was_installed(plan: InstallPlan, root: Path) -> None:
    image = InstalledImage(str(root / "torch.sif"), "ab" * 32, 7, "/central/torch.sif", "reflink", 0)
    store.write_record(plan, image, {"bin/python": "cd" * 32})
    record = store.read_record(root)
    assert (record.record, record.hpcmod, record.module, record.site) == (1, __version__, "PyTorch/2.7.1", "x1")
    assert (record.image, record.unfinished) == (image, True)
    assert record.files == (("bin/python", "cd" * 32),)
    assert record.packages == (Package("torch", "2.7.1"),)
    assert names(root) == ["record.json"]


def test_the_modulefile_is_added_to_the_record_of_a_read_only_installation(plan: InstallPlan, root: Path) -> None:
    store.write_record(plan, InstalledImage("a", "b", 1, "c", "copy", 1), {})
    root.chmod(0o555)
    store.complete_record(root, Path("/modules/Toy/1.lua"), b"text", fit=Fit(has_mpi=False))
    found = store.read_record(root)
    assert (found.fit.has_mpi, found.unfinished) == (False, False)
    assert found.modulefile == InstalledModule("/modules/Toy/1.lua", hashlib.sha256(b"text").hexdigest())
    assert stat.S_IMODE(root.stat().st_mode) == 0o555


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3", "\xff", '{"files": 3}', '{"image": {"size": "5"}}'])
def test_a_missing_or_damaged_record_is_not_a_record(root: Path, text: str | None) -> None:
    if text is not None:
        (root / "record.json").write_bytes(text.encode("latin-1"))
    assert store.read_record(root) == NO_RECORD


def test_an_installation_removes_leftovers_and_records_itself(plan: InstallPlan, root: Path, image: Path) -> None:
    for directory in ("", "bin", "runscripts"):
        (root / directory).mkdir(exist_ok=True)
        (root / directory / ".x.hpcmod-part-99999").touch()
    done = install(plan, source(image), Ways())
    record = store.read_record(root)
    assert record.image.sha256 == done.sha256
    assert {"bin/start-shell", "runscripts/get-master"} <= record.scripts
    assert list(root.rglob("*hpcmod-part*")) == []


def test_an_image_is_checked_against_this_machine_unless_another_is_given(image: Path) -> None:
    assert VerifiedSif(image, None).architecture == architecture_name(platform.machine())
