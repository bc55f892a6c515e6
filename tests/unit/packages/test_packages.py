from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from hpcmod.modules.verify import exit_code_of
from hpcmod.packages.packages import check_packages
from hpcmod.packages.sets import PackageSet
from tests.package_states import EINOPS, OTHER_TAG, TAG, make_state, write_set

FILE = sha256(b"hsqs" + bytes(4092)).hexdigest()


@pytest.fixture
def found(tmp_path: Path) -> PackageSet:
    """A package set with two states for this image, and one for another."""
    states = make_state(1, EINOPS, sha256=FILE), make_state(2, EINOPS, sha256=FILE), make_state(3, tag=OTHER_TAG)
    return write_set(tmp_path / "default", *states)


def test_unchanged_states_for_this_image_pass(found: PackageSet) -> None:
    findings = list(check_packages([found], TAG))
    assert [(one.level, one.rule) for one in findings] == [("ok", "packages")] * 2
    assert f"states/2-{TAG}.squashfs, sha256 {FILE}" in findings[1].found


def test_a_changed_file_fails_with_4_and_the_active_one_can_be_installed_again(found: PackageSet) -> None:
    for number in (1, 2):
        path = found.directory / f"states/{number}-{TAG}.squashfs"
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    findings = list(check_packages([found], TAG))
    assert [one.level for one in findings] == ["fail"] * 2
    assert f"expected sha256 {FILE} as installed, found " in findings[0].found
    assert "Do not use this state" in findings[0].cure
    assert "hpcmod add PyTorch --lock pylock.toml" in findings[1].cure
    assert exit_code_of(findings) == 4


def test_a_missing_record_fails_and_a_missing_digest_is_unknown(tmp_path: Path, found: PackageSet) -> None:
    (found.directory / f"states/1-{TAG}.json").unlink()
    old = write_set(tmp_path / "old", make_state(1, EINOPS), name="old")
    findings = list(check_packages([found, old], TAG))
    assert [one.level for one in findings] == ["fail", "ok", "unknown"]
    assert "hpcmod rebase PyTorch --set old" in findings[2].cure
