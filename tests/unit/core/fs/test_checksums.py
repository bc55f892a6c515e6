from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, NotFoundError, VerificationError
from hpcmod.core.fs.checksums import BLOCK, check_sha256, file_sha256, parse_sha256

SUM = "a" * 64


@pytest.mark.parametrize("text", [SUM, SUM.upper(), f"sha256:{SUM}", f"  {SUM}\n"])
def test_reads_a_sha256_however_it_is_written(text: str) -> None:
    assert parse_sha256(text) == SUM


@pytest.mark.parametrize("text", ["", "a" * 63, "a" * 65, "g" * 64, f"md5:{SUM}", f"{SUM}  file.sif"])
def test_refuses_an_invalid_sha256(text: str) -> None:
    with pytest.raises(BadInputError, match="not a sha256"):
        parse_sha256(text)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_hashes_a_file_of_any_length(tmp_path: Path, size: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(index % 251 for index in range(256)) * (size // 256 + 1))
    with path.open("r+b") as file:
        file.truncate(size)
    assert file_sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_hashing_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        file_sha256(tmp_path / "none")


def test_a_wrong_sum_names_the_subject_and_both_sums() -> None:
    with pytest.raises(VerificationError, match=f"torch.sif: sha256 is {'b' * 64}, expected {SUM}"):
        check_sha256("torch.sif", expected=SUM.upper(), found="b" * 64)


def test_no_expected_sum_accepts_any() -> None:
    check_sha256("torch.sif", expected=None, found=SUM)
