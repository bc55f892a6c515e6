from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from hpcmod.catalogue.publishing.terms import check_terms, read_licence, set_terms
from hpcmod.core.errors import BadInputError, LackingError, NotFoundError
from tests.catalogues import make_catalogue, make_record


def test_only_the_owner_and_the_group_may_read_a_restricted_image(tmp_path: Path) -> None:
    catalogue, record = make_catalogue(tmp_path / "shop"), make_record("Toy/1")
    catalogue.images.mkdir()
    image = catalogue.images / record.sif
    image.touch(mode=0o644)
    group = grp.getgrgid(os.getegid()).gr_name
    found = set_terms(catalogue, record, readers=group, licence="")
    assert (found.readers, image.stat().st_mode & 0o777, image.stat().st_gid) == (group, 0o640, os.getegid())
    catalogue.images.chmod(0o775)
    changed = image.stat().st_ctime_ns
    assert set_terms(catalogue, record, readers=group, licence="").readers == group
    assert image.stat().st_ctime_ns == changed  # its mode stays, even for a moment: readers may open it


def test_a_private_file_in_place_of_the_image_is_opened_to_no_one(tmp_path: Path) -> None:
    """Another member of the group may have renamed a private file to the name of the image."""
    catalogue, record = make_catalogue(tmp_path / "shop"), make_record("Toy/1")
    catalogue.images.mkdir()
    catalogue.images.chmod(0o775)
    image = catalogue.images / record.sif
    image.touch()
    group = grp.getgrgid(os.getegid()).gr_name
    for mode in (0o600, 0o660):
        image.chmod(mode)
        with pytest.raises(LackingError, match="may be another user's"):
            set_terms(catalogue, record, readers=group, licence="")
        assert image.stat().st_mode & 0o777 == mode


def test_a_missing_group_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="group nosuchgroup not found"):
        set_terms(make_catalogue(tmp_path), make_record("Toy/1"), readers="nosuchgroup", licence="")


def test_the_text_of_a_licence_is_kept(tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path / "shop")
    (tmp_path / "terms").write_text("Terms\n")
    record = set_terms(catalogue, make_record("Toy/1"), readers="", licence=str(tmp_path / "terms"))
    assert read_licence(catalogue, record) == "Terms\n"
    assert read_licence(catalogue, make_record("Toy/1")) == ""
    with pytest.raises(LackingError, match="have not accepted"):
        check_terms(catalogue, record, {"HOME": str(tmp_path)})
    check_terms(catalogue, make_record("Toy/1"), {})


@pytest.mark.parametrize(("content", "error"), [(b"\xff", BadInputError), (None, NotFoundError)])
def test_refuses_binary_data(tmp_path: Path, content: bytes | None, error: type[Exception]) -> None:
    if content is not None:
        (tmp_path / "terms").write_bytes(content)
    with pytest.raises(error):
        set_terms(make_catalogue(tmp_path / "shop"), make_record("Toy/1"), readers="", licence=str(tmp_path / "terms"))
