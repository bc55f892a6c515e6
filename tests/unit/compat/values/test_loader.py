from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

import pytest

from hpcmod.compat.values.elf import ElfFile
from hpcmod.compat.values.loader import GLIBC, Search, find_closure, find_library, is_glibc


def lib(*needed: str, soname: str = "", machine: str = "amd64", **paths: tuple[str, ...]) -> ElfFile:
    return ElfFile(machine, 64, soname=soname, needed=needed, has_dynamic=True, **paths)


def program(*needed: str, **paths: tuple[str, ...]) -> ElfFile:
    return ElfFile("amd64", 64, needed=needed, interpreter="/lib64/ld.so", has_dynamic=True, **paths)


@dataclass
class Disk:
    """Files and symbolic links by path."""

    files: dict[str, ElfFile]
    links: dict[str, str] = field(default_factory=dict)

    def elf(self, path: str) -> ElfFile | None:
        return self.files.get(self.real(path))

    def real(self, path: str) -> str:
        path = posixpath.normpath(path)
        return self.real(self.links[path]) if path in self.links else path


def paths(disk: Disk, *roots: str, **search: tuple[str, ...]) -> list[str]:
    """Return the libraries that are loaded in addition to the roots, in order; `?NAME` for a missing one."""
    found = find_closure(roots, disk, Search(**search))  # type: ignore[arg-type]
    return [*(one.path for one in found.libraries[len(roots) :]), *(f"?{name}" for name, _ in found.missing)]


EVERYWHERE = {f"/{place}/liba.so": lib() for place in ("rpath", "env", "runpath", "cached", "usr/lib")}
CACHE = (("liba.so", "/cached/liba.so"),)


@pytest.mark.parametrize(
    ("root", "gone", "expected"),
    [
        pytest.param(program("liba.so", rpath=("/rpath",)), (), "/rpath/liba.so", id="rpath first"),
        pytest.param(program("liba.so", rpath=("/rpath",), runpath=("/runpath",)), (), "/env/liba.so", id="no rpath"),
        pytest.param(program("liba.so", runpath=("/runpath",)), ("env",), "/runpath/liba.so", id="runpath after env"),
        pytest.param(program("liba.so"), ("env",), "/cached/liba.so", id="then the cache"),
        pytest.param(program("liba.so"), ("env", "cached"), "/usr/lib/liba.so", id="then the default directories"),
        pytest.param(program("liba.so"), ("env", "cached", "usr/lib"), "?liba.so", id="nowhere"),
    ],
)
def test_places_are_searched_in_the_loaders_order(root: ElfFile, gone: tuple[str, ...], expected: str) -> None:
    files = {path: elf for path, elf in EVERYWHERE.items() if path.strip("/").removesuffix("/liba.so") not in gone}
    assert paths(Disk({"/p": root, **files}), "/p", library_path=("/env",), cache=CACHE) == [expected]


INDIRECT = {"/x/liba.so": lib("libb.so"), "/x/libb.so": lib()}


@pytest.mark.parametrize(
    ("root", "files", "expected"),
    [
        pytest.param(program("liba.so", rpath=("/x",)), INDIRECT, "/x/liba.so /x/libb.so", id="rpath of the program"),
        pytest.param(
            program("liba.so", runpath=("/x",)), INDIRECT, "/x/liba.so ?libb.so", id="runpath is not passed on"
        ),
        pytest.param(
            program("liba.so", rpath=("/x",)),
            {**INDIRECT, "/x/liba.so": lib("libb.so", runpath=("/y",))},
            "/x/liba.so ?libb.so",
            id="a library with a runpath inherits no rpath",
        ),
        pytest.param(
            program("liba.so", runpath=("$ORIGIN/../lib", "${ORIGIN}/y")),
            {"/o/y/liba.so": lib()},
            "/o/y/liba.so",
            id="$ORIGIN is the directory of the file that uses it",
        ),
        pytest.param(
            program("liba.so"),
            {"/env/liba.so": lib(machine="arm64"), "/usr/lib/liba.so": lib()},
            "/usr/lib/liba.so",
            id="a file of another machine is skipped",
        ),
        pytest.param(
            program("libx-1.so", "libb.so", rpath=("/x",)),
            {
                "/x/libx-1.so": lib(soname="libx.so"),
                "/x/libb.so": lib("libx.so", rpath=("/y",)),
                "/y/libx.so": lib(soname="libx.so"),
            },
            "/x/libx-1.so /x/libb.so",
            id="a loaded soname is not searched again",
        ),
        pytest.param(
            program("liba.so", "libb.so"),
            {"/usr/lib/liba.so": lib("libc.so"), "/usr/lib/libb.so": lib(), "/usr/lib/libc.so": lib()},
            "/usr/lib/liba.so /usr/lib/libb.so /usr/lib/libc.so",
            id="breadth first",
        ),
        pytest.param(
            program("/x/liba.so", "$ORIGIN/libb.so"),
            {"/x/liba.so": lib(), "/o/libb.so": lib()},
            "/x/liba.so /o/libb.so",
            id="a name with a slash is a path",
        ),
    ],
)
def test_libraries_of_a_program(root: ElfFile, files: dict[str, ElfFile], expected: str) -> None:
    assert paths(Disk({"/o/p": root, **files}), "/o/p", library_path=("/env",)) == expected.split()


def test_origin_of_a_program_follows_links_and_that_of_a_library_does_not() -> None:
    here = lib("libb.so", runpath=("$ORIGIN",))
    files = {"/o/p": program("liba.so", runpath=("$ORIGIN",)), "/real/liba.so": here}
    disk = Disk(files, {"/bin/p": "/o/p", "/o/liba.so": "/real/liba.so"})
    disk.files |= {"/o/libb.so": lib(), "/real/libb.so": lib()}
    assert paths(disk, "/bin/p") == ["/o/liba.so", "/o/libb.so"]
    assert paths(Disk({}), "/p") == ["?/p"], "a missing program"


def test_the_rpath_of_one_library_does_not_affect_another() -> None:
    disk = Disk({"/a/liba.so": lib(rpath=("/x",)), "/b/libb.so": lib("libc1.so"), "/x/libc1.so": lib()})
    assert paths(disk, "/a/liba.so", "/b/libb.so") == ["?libc1.so"]
    disk.files["/p"] = program(rpath=("/x",))
    assert paths(disk, "/p", "/b/libb.so") == ["/x/libc1.so"], "but a program's is, as when it opens a library itself"


def test_lib_and_platform_stand_for_the_machines_words_and_longer_names_for_themselves() -> None:
    disk = Disk({"/p": program("liba.so", runpath=("/x/$LIB/$PLATFORM", "/$LIBRARY")), "/x/lib64/z/liba.so": lib()})
    assert paths(disk, "/p", lib="lib64", platform="z") == ["/x/lib64/z/liba.so"]  # type: ignore[arg-type]
    disk = Disk({"/p": program("liba.so", runpath=("/$LIBRARY",)), "/$LIBRARY/liba.so": lib()})
    assert paths(disk, "/p") == ["/$LIBRARY/liba.so"]


def test_one_file_under_two_names_is_loaded_once() -> None:
    disk = Disk({"/p": program("liba.so", "libb.so", rpath=("/x",)), "/x/liba.so": lib()}, {"/x/libb.so": "/x/liba.so"})
    assert paths(disk, "/p") == ["/x/liba.so"]
    assert find_closure(["/p"], disk, Search()).libraries[1].names == ("liba.so", "libb.so")


def test_a_circle_ends() -> None:
    disk = Disk({"/usr/lib/liba.so": lib("libb.so"), "/usr/lib/libb.so": lib("liba.so")})
    assert find_closure(["/usr/lib/liba.so"], disk, Search()).missing == ()


def test_a_library_is_found_by_name_as_dlopen_does() -> None:
    disk = Disk({"/env/liba.so": lib(), "/usr/lib/liba.so": lib()})
    assert find_library("liba.so", disk, Search(library_path=("/env",))) == "/env/liba.so"
    assert find_library("liba.so", disk, Search(library_path=("$ORIGIN/env",))) == "/usr/lib/liba.so"
    assert find_library("libb.so", disk, Search()) == ""


OTHERS = ["libcrypt.so.1", "libnsl.so.2", "libmpi.so.12", "libcxi.so.1", "libm.so", "libnl-3.so.200"]


@pytest.mark.parametrize(
    "name", [*sorted(GLIBC), "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld64.so.2", *OTHERS]
)
def test_glibcs_own_are_told_from_others(name: str) -> None:
    found = find_closure(["/p"], Disk({"/p": program(name), f"/lib/{name}": lib(soname=name)}), Search())
    assert is_glibc(found.libraries[1]) == (name not in OTHERS)
    assert [library.path for library in found.own] == ["/p", *[f"/lib/{name}"] * (name in OTHERS)]
