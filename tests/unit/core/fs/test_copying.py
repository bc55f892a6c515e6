from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NoSpaceError, NotFoundError, VerificationError
from hpcmod.core.fs import copying
from hpcmod.core.fs.copying import copy_file
from tests import corpus

pytestmark = pytest.mark.slow

SIZE = 40 << 20  # several chunks, so that the copy runs ahead of the hash


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.make_random(tmp_path_factory.mktemp("source") / "image.sif", size=SIZE + 17)


@pytest.fixture(scope="module")
def checksum(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    return tmp_path / ".image.sif.partial"


def refuse(code: int) -> object:
    def call(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


def test_copies_the_bytes_and_hashes_them(source: Path, partial: Path, checksum: str) -> None:
    result = copy_file(source, partial, checksum=checksum)
    assert result.sha256 == checksum
    assert result.method in ("reflink", "copy_file_range", "stream")
    assert result.bytes_written == (0 if result.method == "reflink" else SIZE + 17)
    assert partial.read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    "answer", [*map(refuse, (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)), lambda *_: 0]
)
def test_streams_where_the_kernel_cannot_copy(
    source: Path, partial: Path, checksum: str, answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "ioctl", refuse(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "copy_file_range", answer)
    result = copy_file(source, partial, checksum=checksum)
    assert (result.method, result.bytes_written) == ("stream", SIZE + 17)
    assert partial.read_bytes() == source.read_bytes()


def test_short_copies_are_continued(
    source: Path, partial: Path, checksum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.copy_file_range
    monkeypatch.setattr(fcntl, "ioctl", refuse(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "copy_file_range", lambda a, b, n, i, o: real(a, b, min(n, 5_000_001), i, o))
    assert copy_file(source, partial, checksum=checksum).method == "copy_file_range"
    assert partial.read_bytes() == source.read_bytes()


def test_a_reflink_writes_nothing_and_still_hashes(
    source: Path, partial: Path, checksum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clone(target: int, _request: int, reader: int) -> int:
        return os.pwrite(target, os.pread(reader, SIZE + 17, 0), 0)

    monkeypatch.setattr(fcntl, "ioctl", clone)
    monkeypatch.setattr(copying, "free_bytes", lambda _: 0)
    result = copy_file(source, partial, checksum=checksum)
    assert (result.method, result.bytes_written, result.sha256) == ("reflink", 0, checksum)
    assert partial.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_hard_link_is_the_same_file(
    source: Path, partial: Path, checksum: str, tmp_path: Path, through_a_link: bool
) -> None:
    before, given = source.stat().st_mode, tmp_path / "alias.sif" if through_a_link else source
    if through_a_link:
        given.symlink_to(source)
    result = copy_file(given, partial, checksum=checksum, method="link")
    assert (result.method, result.bytes_written, result.sha256) == ("hardlink", 0, checksum)
    assert partial.samefile(source) and not partial.is_symlink()
    assert source.stat().st_mode == before


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM])
def test_a_hard_link_that_cannot_be_made_names_the_cure(
    source: Path, partial: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refuse(code))
    with pytest.raises(LackingError, match="cannot be a hard link") as caught:
        copy_file(source, partial, method="link")
    assert "install_mode = 'copy'" in caught.value.cure
    assert not partial.exists()


@pytest.mark.parametrize("method", ["copy", "link"])
def test_a_wrong_checksum_leaves_nothing(source: Path, partial: Path, checksum: str, method: str) -> None:
    with pytest.raises(VerificationError, match=f"sha256 is {checksum}, expected {'0' * 64}") as caught:
        copy_file(source, partial, checksum="0" * 64, method=method)
    assert str(source) in caught.value.message
    assert caught.value.cure
    assert not partial.exists()
    assert source.exists()


def test_an_invalid_checksum_or_method_is_refused_before_anything_is_touched(source: Path, partial: Path) -> None:
    partial.write_text("here before")
    with pytest.raises(BadInputError):
        copy_file(source, partial, checksum="abc")
    with pytest.raises(BadInputError, match="'move': expected one of copy, link"):
        copy_file(source, partial, method="move")
    assert partial.read_text() == "here before"


def test_a_file_at_the_temporary_name_is_replaced(source: Path, partial: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    partial.symlink_to(precious)
    copy_file(source, partial)
    assert not partial.is_symlink()
    assert precious.read_text() == "keep me"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_copy_may_be_read_by_all_regardless_of_the_umask(source: Path, partial: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        copy_file(source, partial)
    finally:
        os.umask(before)
    assert partial.stat().st_mode & 0o777 == 0o644


def test_says_at_once_when_it_cannot_fit(source: Path, partial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "ioctl", refuse(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "copy_file_range", refuse(errno.EIO))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=10, f_frsize=4096))
    with pytest.raises(NoSpaceError, match=f"{SIZE + 17} bytes needed, 40960 bytes free") as raised:
        copy_file(source, partial)
    assert "--prefix" not in raised.value.cure  # fetch and publish have no such option
    assert not partial.exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["copy_file_range", "pwrite", "fsync"])
def test_a_disk_that_fills_up_leaves_no_files(
    source: Path, partial: Path, code: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "ioctl", refuse(errno.EOPNOTSUPP))
    if call == "pwrite":
        monkeypatch.setattr(os, "copy_file_range", refuse(errno.EXDEV))
    monkeypatch.setattr(os, call, refuse(code))
    with pytest.raises(NoSpaceError, match=f"{SIZE + 17} bytes needed"):
        copy_file(source, partial)
    assert not partial.exists()


def test_any_other_fault_of_the_disk_names_both_files(
    source: Path, partial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    with pytest.raises(HpcmodError, match="Input/output error") as caught:
        copy_file(source, partial)
    assert str(source) in caught.value.message
    assert str(partial) in caught.value.message


def test_an_interrupt_leaves_nothing(source: Path, partial: Path) -> None:
    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_file(source, partial, progress=interrupt)
    assert not partial.exists()


@pytest.mark.parametrize(
    ("in_kernel", "change", "said"),
    [
        (True, lambda source: os.truncate(source, 1000), "it has 1000 bytes"),
        (False, lambda source: os.truncate(source, 1000), "it has 1000 bytes"),
        (True, corpus.flip_byte, ""),
    ],
)
def test_a_source_that_changes_while_it_is_read_is_refused(
    *,
    tmp_path: Path,
    partial: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_kernel: bool,
    change: Callable[[Path], object],
    said: str,
) -> None:
    source = corpus.make_random(tmp_path / "image.sif", size=SIZE)
    monkeypatch.setattr(fcntl, "ioctl", refuse(errno.EOPNOTSUPP))
    if not in_kernel:
        monkeypatch.setattr(os, "copy_file_range", refuse(errno.EXDEV))
    with pytest.raises(VerificationError, match=f"changed while it was copied.*{said}"):
        copy_file(source, partial, progress=lambda *_: change(source))
    assert not partial.exists()


@pytest.mark.parametrize("method", ["copy", "link", "share"])
def test_a_missing_source_or_a_fifo_is_refused(tmp_path: Path, partial: Path, method: str) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        copy_file(tmp_path / "none.sif", partial, method=method)
    os.mkfifo(tmp_path / "a.sif")
    with pytest.raises(BadInputError, match="is a FIFO"):  # at once, without waiting for a writer
        copy_file(tmp_path / "a.sif", partial, method=method)


def test_a_missing_target_directory_is_reported(source: Path, tmp_path: Path) -> None:
    with pytest.raises(LackingError, match="No such file"):
        copy_file(source, tmp_path / "none" / "x")


def test_progress_ends_with_all_bytes(source: Path, partial: Path) -> None:
    told: list[tuple[int, int]] = []
    copy_file(source, partial, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (SIZE + 17, SIZE + 17)


def test_an_empty_file_is_copied(tmp_path: Path, partial: Path) -> None:
    result = copy_file(corpus.make_empty(tmp_path / "empty.sif"), partial)
    assert result.sha256 == hashlib.sha256(b"").hexdigest()
    assert partial.stat().st_size == 0


def test_the_checksum_is_of_the_copied_bytes_if_the_source_changes(
    tmp_path: Path, partial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone changes the source during the copy, then restores its bytes and times before it is hashed."""
    source = tmp_path / "theirs.sif"
    source.write_bytes(b"good" * 1000)
    good, status, real = hashlib.sha256(source.read_bytes()).hexdigest(), source.stat(), os.copy_file_range

    def other_bytes(*given: int) -> int:
        source.write_bytes(b"evil" * 1000)
        try:
            return real(*given)
        finally:
            source.write_bytes(b"good" * 1000)
            os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))

    monkeypatch.setattr(fcntl, "ioctl", refuse(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "copy_file_range", other_bytes)
    with pytest.raises(VerificationError):
        copy_file(source, partial, checksum=good)
    with pytest.raises(VerificationError, match="changed while it was copied"):
        copy_file(source, partial)
    assert not partial.exists()


def test_a_new_name_of_the_source_is_not_mistaken_for_a_change(
    tmp_path: Path, partial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.sif"
    source.write_bytes(b"good" * 1000)
    real = os.copy_file_range

    def linked(*given: int) -> int:
        os.link(source, tmp_path / "b.sif")
        return real(*given)

    monkeypatch.setattr(fcntl, "ioctl", refuse(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "copy_file_range", linked)
    assert copy_file(source, partial).bytes_written == 4000


def test_files_writable_by_others_are_copied_instead_of_linked(tmp_path: Path, partial: Path) -> None:
    source = tmp_path / "a.sif"
    source.write_bytes(b"good" * 1000)
    source.chmod(0o664)
    assert copy_file(source, partial, method="share").method != "hardlink"
    source.chmod(0o644)
    assert copy_file(source, partial, method="share").method == "hardlink"
