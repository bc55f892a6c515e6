from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.compat.install_netstack import captured_directories, read_capture, write_capture
from hpcmod.compat.values.netstack import RECORD, Capture, CapturedLibrary, render_record
from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NotFoundError
from hpcmod.core.fs.temporary import PRIVATE
from hpcmod.machine.values.bind import ON_HOST
from tests.elf_files import elf
from tests.host_libraries import MACHINE, make_host, planned, plant, written

pytestmark = pytest.mark.slow


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_host(tmp_path)


def test_a_capture_has_each_library_under_all_its_names(host: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        directory, made = written(planned(host), tmp_path / "out")
    finally:
        os.umask(before)
    assert made
    assert {path.name: path.is_symlink() for path in directory.iterdir()} == {
        "libfabric.so.1.25.0": False,
        "libfabric.so.1": True,
        "libfabric.so": True,
        "libcxi.so.1.5.0": False,
        "libcxi.so.1": True,
        RECORD: False,
        ON_HOST: True,
    }
    assert (directory / ON_HOST).readlink() == host / "lib64/libfabric.so.1.25.0"
    assert (directory / "libfabric.so").resolve().read_bytes() == (host / "lib64/libfabric.so.1").read_bytes()
    modes = {name: (directory / name).stat().st_mode & 0o777 for name in (".", "libcxi.so.1", RECORD)}
    assert modes == {".": 0o755, "libcxi.so.1": 0o644, RECORD: 0o644}, "it is for whoever loads the module"


def test_the_record_says_what_came_from_where_and_what_a_container_must_have(host: Path, tmp_path: Path) -> None:
    plan = planned(host)
    directory, _ = written(plan, tmp_path / "out")
    record = json.loads((directory / RECORD).read_text())
    fabric, cxi = record["libraries"]
    assert (fabric["source"], fabric["defines"]) == (f"{host}/lib64/libfabric.so.1.25.0", ["FABRIC_1.7"])
    assert fabric["needs"] == [
        {"library": "libcxi.so.1", "version": "LIBCXI_1.5"},
        {"library": "libc.so.6", "version": "GLIBC_2.17"},
    ]
    assert cxi["wanted_by"] == f"{host}/lib64/libfabric.so.1"
    assert (record["glibc_needed"], record["roots"][0]["asked"]) == ("2.17", "libfabric.so.1")
    assert "libc.so.6" in record["left_out"]
    assert record["library_path"] == [f"{host}/cxi", f"{host}/lib64"]
    read = read_capture(directory)
    assert read.glibc_needed == "2.17"
    assert [one.sha256 != "" for one in read.libraries] == [True, True]


def test_a_pattern_is_the_newest_that_fits(host: Path) -> None:
    for release in ("1.9.0", "1.10.0"):
        plant(host / release, "libmpi.so.12")
    assert planned(host, f"{host}/*/libmpi.so.12").roots[0].path == f"{host}/1.10.0/libmpi.so.12"
    plant(host / "a[1]", "libmpi.so.12")  # only stars and question marks are special
    assert planned(host, f"{host}/a[1]/libmpi.so.1?").roots[0].path == f"{host}/a[1]/libmpi.so.12"


def test_reports_missing_libraries_with_a_cure(host: Path) -> None:
    for asked in ("libnowhere.so.1", f"{host}/*/libnowhere.so.1"):
        with pytest.raises(NotFoundError) as caught:
            planned(host, asked)
        assert asked in caught.value.message
        assert "LD_LIBRARY_PATH" in caught.value.cure


def test_refuses_a_file_that_is_not_a_library(host: Path) -> None:
    (host / "text.so").write_text("INPUT(libfabric.so.1)")
    with pytest.raises(BadInputError, match=r"text\.so: neither a shared library"):
        planned(host, f"{host}/text.so")


@pytest.mark.parametrize("content", [b"text", b"", elf("libcxi.so.1", machine=MACHINE)[:200]])
def test_a_damaged_library_is_an_error_as_for_the_loader(host: Path, content: bytes) -> None:
    (host / "lib64/libcxi.so.1").write_bytes(content)
    assert [one.file for one in planned(host).libraries] == ["libfabric.so.1.25.0", "libcxi.so.1.5.0"], "comes later"
    (host / "cxi/libcxi.so.1.5.0").write_bytes(content)
    with pytest.raises(BadInputError, match=r"cxi/libcxi\.so\.1: .*this machine's own loader would fail on it"):
        planned(host)


def test_unreadable_libraries_are_skipped_unless_requested(host: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read anything")
    (host / "cxi/libfabric.so.1").symlink_to(tmp_path / "shut/libfabric.so.1")
    shut = tmp_path / "shut"
    shut.mkdir(mode=0)
    assert planned(host).roots[0].path == f"{host}/lib64/libfabric.so.1"
    (host / "cxi/libcxi.so.1.5.0").chmod(0)
    assert planned(host).missing == (("libcxi.so.1", f"{host}/lib64/libfabric.so.1"),)
    with pytest.raises(BadInputError, match="permission denied"):
        planned(host, f"{host}/cxi/libcxi.so.1")
    shut.chmod(0o755)


def test_where_only_glibc_is_left_there_is_nothing_to_capture(host: Path) -> None:
    for asked, leave_out in (("libc.so.6", ()), ("libfabric.so.1", ("*",))):
        with pytest.raises(BadInputError, match="nothing to copy"):
            planned(host, asked, leave_out=leave_out)


@pytest.mark.parametrize("soname", ["../../escaped", "/escaped", ".", "..", "a/../libevil.so"])
def test_no_name_points_out_of_the_directory(host: Path, tmp_path: Path, soname: str) -> None:
    (host / "libevil.so").write_bytes(elf(soname, machine=MACHINE))
    directory, _ = written(planned(host, f"{host}/libevil.so"), tmp_path / "out")
    assert {path.name for path in directory.iterdir()} <= {"libevil.so", "escaped", RECORD, ON_HOST}
    assert not [path for path in tmp_path.rglob("escaped") if path.parent != directory]


def test_a_library_has_all_names_by_which_others_need_it(host: Path, tmp_path: Path) -> None:
    plant(host / "cxi", "liba.so")
    (host / "cxi/liba.so.0").write_bytes(elf(machine=MACHINE))
    (host / "cxi/libb.so").symlink_to("liba.so.0")
    plant(host / "lib64", "libmpi.so.12", needed=["liba.so", "libb.so"])
    directory, _ = written(planned(host, "libmpi.so.12"), tmp_path / "out")
    assert {path.name for path in directory.glob("lib[ab]*")} == {"liba.so", "libb.so", "liba.so.0"}


def test_a_name_that_is_not_a_text_is_refused_before_anything_is_written(host: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(host) + b"/lib\xff.so"))
    odd.write_bytes(elf("libodd.so", machine=MACHINE))
    with pytest.raises(BadInputError, match="expected a string that can"):
        written(planned(host, str(odd)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("versions", "expected"),
    [(["GLIBC_2.34", "GLIBC_2.4"], "2.34"), (["GLIBC_2.34", "GLIBC_ABI_DT_RELR"], "2.36"), (["GLIBC_PRIVATE"], "")],
)
def test_the_glibc_that_is_needed_is_a_release(host: Path, versions: list[str], expected: str) -> None:
    plant(host / "lib64", "libmpi.so.12", needs=[("libc.so.6", version) for version in versions])
    assert planned(host, "libmpi.so.12").glibc_needed == expected


def test_warns_about_settings_that_hide_the_directory_from_the_loader(host: Path) -> None:
    plant(host / "lib64", "libmpi.so.40", rpath="/opt/mpi/lib", needed=[f"{host}/cxi/libcxi.so.1"])
    said = "\n".join(planned(host, "libmpi.so.40").warnings)
    assert "has an RPATH (/opt/mpi/lib)" in said
    assert f"needs {host}/cxi/libcxi.so.1 by its path" in said
    assert "Open MPI" in said


def test_the_same_bytes_are_captured_once(host: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, _ = written(planned(host), out)
    assert written(planned(host), out, "2") == (first, False)
    plant(host / "cxi", "libcxi.so.1", release=".5.0", defines=["LIBCXI_1.5", "LIBCXI_1.9"])
    assert written(planned(host), out, "2") == (out / "2", True)
    assert captured_directories(out) == [out / "2", first]
    plant(host / "cxi", "libcxi.so.1", release=".5.0", defines=["LIBCXI_1.5"])
    assert written(planned(host), out, "3") == (out / "3", True), "modules take the newest, after a way back as well"


def test_a_damaged_copy_is_not_mistaken_for_the_same_file(host: Path, tmp_path: Path) -> None:
    first, _ = written(planned(host), tmp_path / "out")
    (first / "libcxi.so.1.5.0").write_bytes(b"")
    assert written(planned(host), tmp_path / "out", "2") == (tmp_path / "out/2", True)
    (tmp_path / "out/2/libfabric.so.1").unlink()
    assert written(planned(host), tmp_path / "out", "3") == (tmp_path / "out/3", True)
    (tmp_path / "out/3" / RECORD).write_text("{}")
    assert written(planned(host), tmp_path / "out", "4")[1]


def test_an_existing_directory_is_never_written_into(host: Path, tmp_path: Path) -> None:
    (tmp_path / "out/1").mkdir(parents=True)
    assert written(planned(host), tmp_path / "out")[0] == tmp_path / "out/1-2"


def test_removes_leftovers_of_a_killed_capture(host: Path, tmp_path: Path) -> None:
    left = tmp_path / "out/.1.hpcmod-part-99999"
    left.mkdir(parents=True)
    left.chmod(PRIVATE)
    (left / "libfabric.so.1").write_bytes(b"half")
    written(planned(host), tmp_path / "out")
    assert not left.exists()


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(elf("libother.so", machine=MACHINE))])
def test_a_capture_that_fails_leaves_nothing(host: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    plan = planned(host)
    out = tmp_path / "out"

    def surprise(done: int, total: int) -> None:
        change(host / "cxi/libcxi.so.1.5.0")

    with pytest.raises(HpcmodError):
        write_capture(plan, out, tell=print, progress=surprise)
    assert captured_directories(out) == []
    assert [path.name for path in out.iterdir() if not path.name.endswith((".guard", "-lock"))] == []


def test_names_of_directories_sort_by_time(host: Path, tmp_path: Path) -> None:
    (host / "odd:\n.so").write_bytes(elf("libodd.so", machine=MACHINE))
    directory, _ = write_capture(planned(host, f"{host}/odd:\n.so"), tmp_path / "out", tell=print)
    assert re.fullmatch(r"\d{8}-\d{6}-odd__.so", directory.name)


def test_two_libraries_of_one_file_name_keep_each_its_own(host: Path) -> None:
    one, two = plant(host / "a", "liba.so.1", release=""), plant(host / "b", "libb.so.1", release="")
    for link, directory in ((one, "a"), (two, "b")):
        link.unlink(missing_ok=True)
        (host / directory / "same.so").write_bytes(elf(link.name, machine=MACHINE))
        link.symlink_to("same.so")
    first, second = planned(host, str(one), str(two)).libraries
    assert (first.file, second.file) == ("same.so", "libb.so.1")


def test_two_libraries_of_one_name_or_one_with_that_of_the_record_are_refused(host: Path) -> None:
    (host / "libevil.so").write_bytes(elf(RECORD, machine=MACHINE))
    with pytest.raises(BadInputError, match="are two libraries with the same name"):
        planned(host, f"{host}/libevil.so")
    one, two = plant(host / "a", "libmpi.so.12"), plant(host / "b", "libmpi.so.12", release=".1")
    with pytest.raises(
        BadInputError, match=r"a/libmpi\.so\.12\.0 and .*b/libmpi\.so\.12\.1 are two libraries with the same name"
    ):
        planned(host, str(one), str(two))


def test_distinguishes_a_captured_directory_from_others(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="was not created by"):
        read_capture(tmp_path)
    (tmp_path / RECORD).write_text("{}")
    with pytest.raises(BadInputError, match="record: expected") as caught:
        read_capture(tmp_path)
    assert caught.value.cure.startswith("Capture the libraries again")


@pytest.mark.parametrize("name", ["../x", "/x", ".", "..", ""])
def test_a_record_names_no_file_outside_of_its_directory(tmp_path: Path, name: str) -> None:
    capture = Capture((), (CapturedLibrary(name, (), "/x", ""),), (), (), ())
    (tmp_path / RECORD).write_text(render_record(capture, time=""))
    with pytest.raises(BadInputError, match="libraries: file: expected a name without a slash"):
        read_capture(tmp_path)


def test_unwritable_directories_are_reported(host: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    out = tmp_path / "out"
    out.mkdir(mode=0o555)
    with pytest.raises(LackingError, match="Permission denied"):
        written(planned(host), out)
