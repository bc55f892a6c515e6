from __future__ import annotations

from pathlib import Path

from hpcmod import __version__
from hpcmod.catalogue.finding.outdated import find_outdated
from hpcmod.catalogue.records.index import read_index
from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import InstalledImage, InstallRecord
from tests.catalogues import make_catalogue, make_record

IMAGE = Path(__file__)
"""Any existing file, used as an image."""


def installed(module: str, *, sha256: str, by: str = __version__, path: Path = IMAGE) -> Installed:
    image = InstalledImage(str(path), sha256, IMAGE.stat().st_size)
    return Installed(module, IMAGE, Path("/r"), InstallRecord(hpcmod=by, image=image))


def test_each_reason_is_reported_with_its_cure(tmp_path: Path) -> None:
    same = make_record("same/1")
    site = make_catalogue(
        tmp_path / "site",
        same,
        make_record("other-image/1"),
        make_record("old/1", state="deprecated", until="2027-01-01", successor="new/1"),
        make_record("gone/1", state="retired"),
        make_record("retired/1", state="retired"),
        make_record("retired/2"),
        make_record("versions/9", sha256="9" * 64),
        make_record("versions/10", state="deprecated"),
        make_record("versions/11", aliases=("stable",)),
        make_record("versions/12"),
    )
    own = [
        installed("same/1", sha256=same.sha256),
        installed("nowhere/1", sha256="0" * 64, by="1"),
        installed("other-image/1", sha256="0" * 64),
        installed("old/1", sha256=make_record("old/1").sha256),
        installed("gone/1", sha256="0" * 64),
        installed("retired/1", sha256="0" * 64),
        installed("versions/9", sha256="9" * 64),
        installed("same/1", sha256=same.sha256, path=tmp_path / "removed.sif"),
    ]
    found = {(one.module, one.kind): one.cure for one in find_outdated(own, [read_index(site)])}
    assert found == {
        ("nowhere/1", "scripts"): "hpcmod update nowhere/1",
        ("other-image/1", "image"): "hpcmod update other-image/1",
        ("same/1", "damaged"): "hpcmod update same/1",
        ("old/1", "state"): "hpcmod install new/1",
        ("gone/1", "state"): "hpcmod ls",
        ("retired/1", "state"): "hpcmod install retired/2",
        ("versions/9", "version"): "hpcmod install versions/11",
    }
