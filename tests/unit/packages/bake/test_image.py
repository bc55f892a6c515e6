from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NoSpaceError, NotFoundError, VerificationError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.values.facts import Package
from hpcmod.images import Sif
from hpcmod.images.sif.reader import read_sif, squashfs_partition
from hpcmod.images.squashfs.reader import Squashfs
from hpcmod.packages.bake import writing
from hpcmod.packages.bake.image import bake
from hpcmod.packages.bake.writing import NewFile
from tests import corpus

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="mksquashfs is missing")

PREFIX = "/opt/miniconda3/envs/pytorch"
SITE = f"{PREFIX}/lib/python3.12/site-packages"
SCRIPT = "#!/user-software/venv/mine/bin/python3.12\nimport einops\n"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return corpus.make_image(tmp_path / "image.sif")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    top = tmp_path / "user-software"
    site = top / "venv/mine/lib/python3.12/site-packages"
    for name, text in {
        "einops/__init__.py": "x = 1\n",
        "einops-0.8.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: einops\nVersion: 0.8.0\n",
        "torch-3.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 3.0\n",
        "image.pth": "import site\n",
    }.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    (site / "einops/__init__.py").chmod(0o600)
    (top / "venv/mine/bin").mkdir()
    for name in ("einops-show", "pip", "torchrun", "python3.12"):
        (top / "venv/mine/bin" / name).write_text(SCRIPT)
        (top / "venv/mine/bin" / name).chmod(0o755)
    (top / "data").mkdir()
    (top / "data/large").write_bytes(os.urandom(300_000))
    (top / "data/again").hardlink_to(top / "data/large")
    os.mkfifo(top / "data/fifo")
    return top


def new(out: Path, **more: object) -> NewFile:
    return NewFile(out, **more)  # type: ignore[arg-type]


def make(image: Path, packages: Path, out: Path, **more: object) -> Path:
    bake(image, packages, new(out, **more))
    return out


def read(sif: Path, path: str) -> bytes:
    with opened(sif) as squashfs:
        return squashfs.read_bytes(path, 1 << 20)


@contextmanager
def opened(sif: Path) -> Iterator[Squashfs]:
    partition = squashfs_partition(read_sif(sif))
    with sif.open("rb") as file:
        yield Squashfs(file, partition.offset, partition.size)


def test_an_empty_virtual_environment_is_refused(image: Path, tmp_path: Path) -> None:
    top = tmp_path / "user-software"
    site = top / "venv/mine/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    (site / "image.pth").write_text("import site\n")
    with pytest.raises(BadInputError, match="has no packages, so there is nothing to add") as refused:
        make(image, top, tmp_path / "mine.sif")
    assert "hpcmod add CONTAINER PACKAGE" in refused.value.cure
    assert not (tmp_path / "mine.sif").exists()
    (top / "data").write_text("x")
    assert bake(image, top, new(tmp_path / "mine.sif"), dry_run=True).added == ()


def test_conda_packages_are_refused_whose_files_name_the_path_of_the_user(image: Path, tmp_path: Path) -> None:
    top = tmp_path / "user-software"
    (top / "venv/mine/lib/python3.12/site-packages").mkdir(parents=True)
    (top / "venv/mine/conda-meta").mkdir()
    with pytest.raises(BadInputError, match="has conda packages, which cannot be moved"):
        make(image, top, tmp_path / "mine.sif")
    assert not (tmp_path / "mine.sif").exists()


def test_a_baked_image_has_its_own_files_and_the_packages(image: Path, packages: Path, tmp_path: Path) -> None:
    made = tmp_path / "mine.sif"
    plan = bake(image, packages, new(made))
    assert (plan.sha256, plan.size) == (file_sha256(made), made.stat().st_size)
    assert plan.added == ("einops==0.8.0", "torch==3.0")
    assert plan.commands == ("einops-show",)
    facts = Sif(made).facts()
    assert facts.python == Sif(image).facts().python
    assert {Package("einops", "0.8.0"), Package("torch", "3.0"), Package("PyYAML", "6.0.2")} <= set(facts.packages)
    assert "einops-show" in facts.commands
    assert read(made, "/opt/hpcmod-packages/1/lib/python3.12/site-packages/einops/__init__.py") == b"x = 1\n"
    with opened(made) as squashfs:
        node = squashfs.find("/user-software/venv/mine/lib/python3.12/site-packages/einops/__init__.py")
        assert node is not None and node.mode == 0o644
    assert read(made, "/user-software/data/again") == (packages / "data/large").read_bytes()
    assert (
        read(made, f"{PREFIX}/bin/einops-show")
        == SCRIPT.replace("/user-software/venv/mine/bin/python3.12", f"{PREFIX}/bin/python3.12").encode()
    )
    assert read(made, f"{PREFIX}/bin/torchrun") == b"#!/bin/sh\n"
    assert read(made, f"{SITE}/_hpcmod_packages.pth") == b"import _hpcmod_packages\n"


def test_labels_and_provenance_name_the_baked_image(image: Path, packages: Path, tmp_path: Path) -> None:
    made = make(image, packages, tmp_path / "mine.sif")
    labels = json.loads(read(made, "/.singularity.d/labels.json"))
    assert labels["org.opencontainers.image.title"] == "a test image"
    assert labels["org.hpcmod.bake.image"] == f"sha256:{file_sha256(image)}"
    known = Sif(made).provenance(None)
    assert known is not None
    assert (known.sha256, known.size) == (file_sha256(made), made.stat().st_size)


def test_a_squashfs_gives_the_same_image_as_often_as_it_is_baked(image: Path, packages: Path, tmp_path: Path) -> None:
    (packages / "data/fifo").unlink()
    packed = corpus.pack(packages, tmp_path / "packed.squashfs")
    one, two = (make(image, packed, tmp_path / name) for name in ("one.sif", "two.sif"))
    assert file_sha256(one) == file_sha256(two)
    assert read(one, "/user-software/data/large") == (packages / "data/large").read_bytes()
    other = corpus.pack(packages, tmp_path / "other.squashfs", "-comp", "zstd")
    mixed = make(image, other, tmp_path / "mixed.sif")
    assert read(mixed, "/user-software/data/large") == (packages / "data/large").read_bytes()


def test_a_baked_image_can_be_baked_again_and_the_newest_packages_come_first(
    image: Path, packages: Path, tmp_path: Path
) -> None:
    first = make(image, packages, tmp_path / "first.sif")
    info = packages / "venv/mine/lib/python3.12/site-packages/einops-0.8.0.dist-info"
    info.rename(info.with_name("einops-0.9.0.dist-info"))
    info.with_name("einops-0.9.0.dist-info").joinpath("METADATA").write_text("Name: einops\nVersion: 0.9.0\n")
    second = tmp_path / "second.sif"
    assert bake(first, packages, new(second)).prefix == "/opt/hpcmod-packages/2"
    assert Package("einops", "0.9.0") in Sif(second).facts().packages
    assert Package("einops", "0.8.0") not in Sif(second).facts().packages


def test_a_plan_writes_nothing(image: Path, packages: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert bake(image, packages, new(tmp_path / "mine.sif"), dry_run=True).commands == ("einops-show",)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda top: (top / "venv/mine/lib/python3.12").rename(top / "venv/mine/lib/python3.11"), LackingError),
        (lambda top: (top / "venv").rename(top / "other"), BadInputError),
        (lambda top: top.rename(top.with_name("elsewhere")), NotFoundError),
    ],
)
def test_packages_that_do_not_fit_are_refused(
    image: Path, packages: Path, tmp_path: Path, change: object, error: type[HpcmodError]
) -> None:
    change(packages)  # type: ignore[operator]
    with pytest.raises(error):
        make(image, packages, tmp_path / "mine.sif")
    assert not (tmp_path / "mine.sif").exists()


def test_an_existing_file_is_replaced_only_by_force(image: Path, packages: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.sif"
    out.write_text("mine")
    with pytest.raises(BadInputError, match="already exists"):
        make(image, packages, out)
    assert out.read_text() == "mine"
    assert Sif(make(image, packages, out, force=True)).facts().python
    with pytest.raises(BadInputError, match="is a directory"):
        make(image, packages, tmp_path, force=True)


def test_of_a_changed_image_or_on_a_full_disk_nothing_is_left(
    image: Path, packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    sha256 = file_sha256(image)
    corpus.flip_byte(image, at=100)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(VerificationError, match="sha256"):
        make(image, packages, tmp_path / "mine.sif", sha256=sha256)
    corpus.flip_byte(image, at=100)
    monkeypatch.setattr(writing, "sync_and_hash", full)
    with pytest.raises(NoSpaceError):
        make(image, packages, tmp_path / "mine.sif")
    assert sorted(tmp_path.iterdir()) == before


def test_one_of_several_environments_is_chosen_by_name(image: Path, packages: Path, tmp_path: Path) -> None:
    (packages / "venv/other/lib/python3.12/site-packages/x-1.dist-info").mkdir(parents=True)
    out = new(tmp_path / "mine.sif")
    with pytest.raises(BadInputError, match="mine, other"):
        bake(image, packages, out, dry_run=True)
    assert bake(image, packages, out, venv="other", dry_run=True).added == ("x==1",)
