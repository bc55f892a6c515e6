from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.compat.inspect.stack import open_files
from tests.corpus import Link
from tests.stacks import Stubs, make_stack, stub

IMAGE: Stubs = {
    "/lib64": Link("usr/lib64"),
    "/usr/lib64/libown.so": stub("libown.so"),
    "/usr/lib64/libalias.so": Link("/usr/lib64/libown.so"),
    "/usr/lib64/circle": Link("circle"),
    "/usr/lib64/script.so": "/* GNU ld script */",
    "/usr/lib64/broken.so": b"\x7fELF\x09\x01" + bytes(60),
    "/opt/own/file": "the image's",
}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    root = tmp_path / "host root"
    (root / "opt" / "cray" / "1.2").mkdir(parents=True)
    (root / "opt" / "cray" / "1.2" / "libhost.so").write_bytes(stub("libhost.so"))
    (root / "opt" / "cray" / "default").symlink_to("1.2")
    (root / "opt" / "cray" / "absolute").symlink_to("/opt/cray/1.2")
    (root / "opt" / "cray" / "out").symlink_to(root / "secret")
    (root / "secret").write_text("of the host")
    (root / "alias").symlink_to("opt/cray")
    return root


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/usr/lib64/libown.so", "/usr/lib64/libown.so"),
        ("/lib64/libalias.so", "/usr/lib64/libown.so"),
        ("/lib64/../lib64/./libown.so", "/usr/lib64/libown.so"),
        ("/lib64/circle", ""),
        ("/none", ""),
        ("/usr/lib64/libown.so/x", ""),
        ("/opt/cray/default/libhost.so", "/opt/cray/1.2/libhost.so"),
        ("/opt/cray/absolute/libhost.so", "/opt/cray/1.2/libhost.so"),
        ("/opt/cray/out", ""),
        ("/opt/cray/..", "/opt"),
        ("/mnt/deep/libhost.so", "/mnt/deep/libhost.so"),
        ("/mnt", "/mnt"),
        ("/opt/own/file", "/opt/own/file"),
        ("/lib64/libcxi.so.1", "/usr/lib64/libcxi.so.1"),
        ("/usr/lib64/libcxi-by-link.so.1", "/usr/lib64/libcxi-by-link.so.1"),
        ("/", "/"),
    ],
)
def test_links_are_followed_as_inside_the_container(tmp_path: Path, host: Path, path: str, real: str) -> None:
    library = f"{host}/opt/cray/1.2/libhost.so"
    binds = [
        ("/opt/cray", f"{host}/alias"),
        ("/mnt/deep", f"{host}/opt/cray/default"),
        ("/usr/lib64/libcxi.so.1", library),
        ("/lib64/libcxi-by-link.so.1", library),
    ]
    with open_files(make_stack(tmp_path / "i.sif", IMAGE), binds) as files:
        assert files.real(path) == real
        on_host = real.startswith(("/opt/cray", "/mnt/deep", "/usr/lib64/libcxi"))
        assert bool(files.on_host(real)) == on_host


def test_a_bind_hides_what_the_image_has_there(tmp_path: Path, host: Path) -> None:
    image = make_stack(tmp_path / "i.sif", {"/opt/own/file": "the image's", "/opt/own/other": ""})
    (host / "file").write_text("the host's")
    with open_files(image) as files:
        assert files.listdir("/opt/own") == ["file", "other"]
        assert files.read_bytes("/opt/own/file", 99) == b"the image's"
        bound = files.with_binds([("/opt/own", str(host)), ("/new/place", str(host / "file"))])
        assert bound.read_bytes("/opt/own/file", 99) == b"the host's"
        assert bound.read_bytes("/new/place", 3) == b"the"
        assert "other" not in bound.listdir("/opt/own")
        assert bound.listdir("/new") == ["place"]
        assert bound.listdir("/") == ["bin", "new", "opt"]
        assert bound.read_bytes("/opt/own/none", 9) == b""


def test_elf_files_are_read_on_both_sides_and_broken_ones_are_noted(tmp_path: Path, host: Path) -> None:
    image = make_stack(tmp_path / "i.sif", IMAGE)
    with open_files(image, [("/opt/cray", f"{host}/opt/cray")]) as files:
        for path, soname in (("/lib64/libalias.so", "libown.so"), ("/opt/cray/default/libhost.so", "libhost.so")):
            found = files.elf(path)
            assert found is not None
            assert found.soname == soname
        for path in ("/lib64/script.so", "/lib64/broken.so", "/lib64", "/none"):
            assert files.elf(path) is None
        assert list(files.broken) == ["/lib64/script.so", "/lib64/broken.so"]


def test_unreadable_files_count_as_missing(tmp_path: Path) -> None:
    files = ContainerFiles(None, [("/x", str(tmp_path / "gone"))])
    assert (files.listdir("/x"), files.read_bytes("/x/y", 9), files.elf("/x/y")) == ([], b"", None)
