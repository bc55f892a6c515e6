"""Libraries captured from real programs: all that `ldd` lists except glibc, enough for an image with only glibc."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.compat.host_stack import files_of_host, read_search
from hpcmod.compat.install_netstack import captured_directories, plan_capture, write_capture
from hpcmod.compat.values.loader import find_closure
from hpcmod.core.errors import BadInputError
from tests.fabric import make_root, missing_fabric, pack_image, plant_programs
from tests.stack import Stack

pytestmark = pytest.mark.stack

PROGRAMS = {
    "bash": "--version",
    "dpkg-deb": "--version",
    "fi_info": "--version",
    "fusermount3": "--version",
    "gpgv": "--version",
    "mksquashfs": "-version",
    "openssl": "version",
    "perl": "-v",
    "sed": "--version",
    "skopeo": "--version",
    "sort": "--version",
    "sqfs2tar": "--version",
    "tar": "--version",
}
"""Programs on every machine set up with dev/stack, with arguments that make them print something and exit."""

LIBRARIES = ("libfabric.so.1", "libmpi.so.40", "libibverbs.so.1")

GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|pthread|rt|util|resolv|anl|mvec)\.so\.\d)")


@pytest.fixture(autouse=True)
def needs_fabric(stack: Stack) -> None:
    if missing_fabric(stack):
        pytest.skip(missing_fabric(stack))


def programs() -> dict[str, str]:
    found = {name: shutil.which(name) for name in PROGRAMS}
    return {name: os.path.realpath(path) for name, path in found.items() if path}


def ldd(path: str | Path, **env: str) -> dict[str, str]:
    """Return the libraries that the loader finds, by name; `not found` for missing ones."""
    said = subprocess.run(["ldd", str(path)], capture_output=True, text=True, env={"PATH": os.environ["PATH"], **env})
    lines = (re.match(r"\s+(\S+) => (not found|\S+)", line) for line in said.stdout.splitlines())
    return {found[1]: found[2] for found in lines if found}


def closure(path: str | Path, **env: str) -> dict[str, str]:
    """Return the libraries that hpcmod finds."""
    found = find_closure([str(path)], files_of_host(), read_search(env))
    named = {one.name: one.path for one in found.libraries[1:] if not one.name.startswith(("/", "ld-linux"))}
    return {**named, **{name: "not found" for name, _ in found.missing}}


def without_glibc(found: dict[str, str]) -> dict[str, str]:
    return {name: path for name, path in found.items() if not GLIBC.fullmatch(name)}


def test_there_are_enough_programs_to_say_something() -> None:
    assert len([name for name, path in programs().items() if without_glibc(ldd(path))]) >= 10


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_capture_contains_the_libraries_of_ldd_except_glibc(name: str, tmp_path: Path) -> None:
    plan = plan_capture([name], {})
    root = plan.roots[0].path
    wanted = {os.path.realpath(path) for path in without_glibc(ldd(root)).values()}
    assert {one.source for one in plan.libraries} == wanted | {os.path.realpath(root)}
    directory, _ = write_capture(plan, tmp_path, tell=print)
    alone = ldd(directory / name, LD_LIBRARY_PATH=str(directory))
    assert {path for soname, path in without_glibc(alone).items()} == {
        f"{directory}/{soname}" for soname in without_glibc(ldd(root))
    }


def test_programs_of_this_machine_need_what_ldd_says() -> None:
    paths = sorted({os.path.realpath(path) for path in Path("/usr/bin").iterdir() if path.is_file()})
    files = files_of_host()
    dynamic = [path for path in paths if (elf := files.elf(path)) and elf.has_dynamic]
    chosen = {*dynamic[::20], *programs().values()}
    assert {path: closure(path) for path in chosen} == {path: ldd(path) for path in chosen}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries and programs that find each other in every supported way."""
    top = tmp_path_factory.mktemp("elf")
    for step in chains(top):
        subprocess.run(step, cwd=top, check=True)
    (top / "links").mkdir()
    (top / "links/libfar.so.1").symlink_to("../links/libfar.so.1.2")
    (top / "links/libfar.so.1.2").symlink_to(top / "deep/libfar.so.1.2.3")
    (top / "bin").mkdir()
    (top / "bin/by-link").symlink_to("../by-origin")
    return top


def library(path: str, *flags: str, soname: str = "") -> list[str]:
    """Return a command that compiles a library with one function, named after the file."""
    name = re.sub(r"\W", "_", Path(path).name)
    called = f"-Wl,-soname,{soname or Path(path).name}"
    source = f"printf 'int {name}(void) {{ return 1; }}' | gcc -shared -fPIC -x c -o {path} - -x none {called}"
    return ["sh", "-c", f"mkdir -p {Path(path).parent}; {source} -Wl,--no-as-needed {' '.join(flags)}"]


def program(path: str, *flags: str) -> list[str]:
    source = f"printf 'int main(void) {{ return 0; }}' | gcc -x c -o {path} - -x none -Wl,--no-as-needed"
    return ["sh", "-c", f"{source} {' '.join(flags)}"]


def chains(top: Path) -> Iterator[list[str]]:
    """Yield build commands for the chains of libraries."""
    old, new = "-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"
    linked = "-Wl,--allow-shlib-undefined"
    yield library("deep/libfar.so.1.2.3", soname="libfar.so.1")
    yield library("a/libsame.so")
    yield library("b/libsame.so")
    yield library("a/libleaf.so")
    # through $ORIGIN, in both spellings
    yield library("sub/libmid.so", new, r"-Wl,-rpath,'$ORIGIN/../a' a/libleaf.so")
    yield program("by-origin", new, r"-Wl,-rpath,'${ORIGIN}/sub' sub/libmid.so", linked)
    # an RPATH also applies to dependencies of libraries, a RUNPATH does not
    yield library("sub/libplain.so", "a/libleaf.so")
    yield program("by-rpath", old, f"-Wl,-rpath,{top}/sub:{top}/a sub/libplain.so", linked)
    yield program("by-runpath", new, f"-Wl,-rpath,{top}/sub:{top}/a sub/libplain.so", linked)
    # a library with a RUNPATH does not inherit the RPATH of the object that needs it
    yield library("sub/libshut.so", new, f"-Wl,-rpath,{top}/nowhere a/libleaf.so")
    yield program("not-inherited", old, f"-Wl,-rpath,{top}/sub:{top}/a sub/libshut.so", linked)
    # the same name in two directories: which one takes precedence
    yield program("rpath-same", old, f"-Wl,-rpath,{top}/a a/libsame.so")
    yield program("runpath-same", new, f"-Wl,-rpath,{top}/a a/libsame.so")
    # a name is loaded only once, wherever the second search would find it
    yield library("b/libother.so", old, f"-Wl,-rpath,{top}/b b/libsame.so")
    yield program("taken-once", old, f"-Wl,-rpath,{top}/a:{top}/b a/libsame.so b/libother.so")
    # a chain of links, found by its soname
    yield program("by-links", new, f"-Wl,-rpath,{top}/links deep/libfar.so.1.2.3")
    # a path as the soname
    yield library("sub/libpath.so", soname=f"{top}/sub/libpath.so")
    yield program("by-path", "sub/libpath.so")
    yield program("missing", "a/libleaf.so")


CHAINS = (
    *("by-origin", "bin/by-link", "by-rpath", "by-runpath", "not-inherited", "rpath-same", "runpath-same"),
    *("taken-once", "by-links", "by-path", "missing"),
)


@pytest.mark.parametrize("library_path", ["", "{top}/b", "{top}/b:{top}/a", "{top}/nowhere:", "$ORIGIN/b;{top}/a"])
@pytest.mark.parametrize("name", CHAINS)
def test_libraries_are_found_as_the_loader_finds_them(build: Path, name: str, library_path: str) -> None:
    env = {"LD_LIBRARY_PATH": library_path.format(top=build)} if library_path else {}
    path = os.path.realpath(build / name)
    found, expected = closure(path, **env), ldd(path, **env)
    assert {name: os.path.normpath(path) for name, path in found.items()} == {
        name: os.path.normpath(path) for name, path in expected.items()
    }


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF"], ids=["empty", "text", "cut off"])
def test_a_capture_stops_where_the_loader_stops(build: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "libleaf.so").write_bytes(content)
    env = {"LD_LIBRARY_PATH": f"{tmp_path}:{build}/a"}
    said = subprocess.run([build / "missing"], env=env, capture_output=True, text=True, check=False)
    assert f"{tmp_path}/libleaf.so: " in said.stderr
    with pytest.raises(BadInputError, match=rf"^{tmp_path}/libleaf\.so: "):
        plan_capture([str(build / "missing")], env)


def test_ldd_confirms_the_chains_of_libraries(build: Path) -> None:
    assert ldd(build / "by-runpath")["libleaf.so"] == "not found"
    assert ldd(build / "by-rpath")["libleaf.so"] == f"{build}/a/libleaf.so"
    assert ldd(build / "not-inherited")["libleaf.so"] == "not found"


def test_a_capture_holds_one_of_each_name_of_a_chain(build: Path, tmp_path: Path) -> None:
    plan = plan_capture([str(build / "by-links"), str(build / "by-rpath"), str(build / "taken-once")], {})
    directory, _ = write_capture(plan, tmp_path, tell=print)
    assert {path.name for path in directory.iterdir()} == {
        *("libfar.so.1", "libfar.so.1.2.3", "libplain.so", "libleaf.so", "libsame.so", "libother.so"),
        *("record.json", ".on-host"),
    }
    assert (directory / "libfar.so.1").readlink() == Path("libfar.so.1.2.3")


def test_a_killed_capture_leaves_no_incomplete_directory(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-c",
        "from hpcmod.core.cli.main import main; main()",
        "site",
        "netstack",
        "capture",
        "libmpi.so.40",
    ]
    whole = {one.file: one.size for one in plan_capture(["libmpi.so.40"], {}).libraries}
    delay, status = 0.05, -signal.SIGKILL
    while status:
        with subprocess.Popen([*argv, "--output", str(tmp_path)], stdout=subprocess.DEVNULL) as running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(delay)
            running.kill()
        status = running.returncode
        for directory in captured_directories(tmp_path):
            assert {name: (directory / name).stat().st_size for name in whole} == whole
        delay *= 1.5
    assert len(captured_directories(tmp_path)) == 1
    assert not list(tmp_path.glob(".*hpcmod-part*"))


def test_captured_programs_run_in_an_image_of_busybox_and_glibc(stack: Stack, tmp_path: Path) -> None:
    root = make_root(tmp_path / "root")
    plant_programs(root, ["busybox"], libraries=[], glibc=True)
    glibc = Path(closure(programs()["fi_info"])["libc.so.6"]).parent
    for name in ("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2", "libutil.so.1"):
        shutil.copy(glibc / name, root / "usr/lib/x86_64-linux-gnu" / name)
    (root / "usr/lib64/ld-linux-x86-64.so.2").symlink_to("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    image = pack_image(stack, root, tmp_path / "small.sif")
    assert image.stat().st_size < 3_500_000

    here = programs()
    plan = plan_capture(list(here.values()), {})
    directory, _ = write_capture(plan, tmp_path / "netstack", tell=print)
    shown = tmp_path / "programs"
    shown.mkdir()
    for name, path in here.items():
        shutil.copy(path, shown / name)
    calls = "\n".join(f"echo == {name}; LC_ALL=C /programs/{name} {PROGRAMS[name]} </dev/null 2>&1" for name in here)
    traces = "\n".join(f"LD_TRACE_LOADED_OBJECTS=1 /programs/{name} >&2" for name in here)
    (shown / "call").write_text(f"{calls}\n{traces}\n")
    inside = subprocess.run(
        [
            *(str(stack.apptainer), "exec", "--bind", f"{directory}:/host/lib,{shown}:/programs"),
            *(str(image), "sh", "/programs/call"),
        ],
        env=stack.environment(tmp_path, APPTAINERENV_LD_LIBRARY_PATH="/host/lib"),
        capture_output=True,
        text=True,
        check=False,
    )
    outside = subprocess.run(["sh", "-c", calls.replace("/programs/", f"{shown}/")], capture_output=True, text=True)
    assert inside.stdout.replace("/programs/", f"{shown}/") == outside.stdout
    loaded = dict(re.findall(r"^\t(\S+) => (\S+)", inside.stderr, re.MULTILINE))
    assert len(without_glibc(loaded)) >= 20
    assert {str(Path(path).parent) for path in without_glibc(loaded).values()} == {"/host/lib"}
    assert "=> not found" not in inside.stderr
