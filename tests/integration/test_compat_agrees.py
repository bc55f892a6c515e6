"""The compat verdict compared with the real dynamic loader, on this machine and inside containers."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.compat.compat import check_compat, make_case
from hpcmod.compat.host_stack import files_of_host, read_search
from hpcmod.compat.install_netstack import plan_capture, write_capture
from hpcmod.compat.values.loader import Closure, find_closure, find_library
from hpcmod.compat.values.stack import PLUGIN
from hpcmod.compat.values.verdict import find_unmet
from hpcmod.core.values.finding import FAIL
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import IN_CONTAINER, Site
from hpcmod.machine.values.tables import Netstack, Network
from hpcmod.modules.values.swap import make_library_path
from tests.fabric import LIBRARIES, make_fabric_image, missing_fabric, pack_image
from tests.stack import Stack, run
from tests.stacks import LOADER, Stubs, fabric, make_stack, plugin, stub

PROGRAMS = 80
OPENS = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
TOO_NEW = ("libc.so.6", "GLIBC_2.99")


def agrees(closure: Closure, said: str, failed: bool) -> None:
    """Compare our findings with the loader's output: missing names and versions."""
    unmet = find_unmet(closure)
    assert bool(closure.missing or unmet) == failed, said
    for name, _ in closure.missing[:1]:
        assert name in said
    if unmet and not closure.missing:
        assert any(f"version `{one.version}' not found (required by {one.wanted_by})" in said for one in unmet), said


def test_on_the_programs_of_this_machine_nothing_is_missing_where_the_loader_misses_nothing() -> None:
    files, search = files_of_host(), read_search({})
    looked = 0
    for path in sorted(Path("/usr/bin").iterdir()):
        elf = files.elf(str(path))
        if looked == PROGRAMS or elf is None or not elf.needed:
            continue
        looked += 1
        done = subprocess.run([LOADER, "--list", path], capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        agrees(find_closure([str(path)], files, search), said, "not found" in said)
    assert looked >= 20


@pytest.mark.parametrize(
    ("provider", "needs"),
    [
        *itertools.product(
            [None, [], ["FABRIC_1.0"], ["FABRIC_1.0", "FABRIC_1.3"]],
            [("FABRIC_1.0",), ("FABRIC_1.0", "FABRIC_1.3"), ("FABRIC_1.8",)],
        )
    ],
)
def test_on_pairs_of_stubs(tmp_path: Path, provider: list[str] | None, needs: tuple[str, ...]) -> None:
    if provider is not None:
        (tmp_path / "libfabric.so.1").write_bytes(stub("libfabric.so.1", defines=provider))
    user = tmp_path / "libuser.so"
    user.write_bytes(stub("libuser.so", *(("libfabric.so.1", version) for version in needs), runpath="$ORIGIN"))
    done = subprocess.run([sys.executable, "-c", OPENS, user], capture_output=True, text=True, timeout=60)
    agrees(find_closure([str(user)], files_of_host(), read_search({})), done.stderr, done.returncode != 0)


@pytest.mark.parametrize(
    ("name", "more", "fails"),
    [
        ("old enough", {}, False),
        ("a glibc that there is not", {"needs": (TOO_NEW,)}, True),
        ("a weak need of it, which may be missing", {"weak": (TOO_NEW,)}, False),
        ("rpath", {"rpath": "$ORIGIN/below", "needed": ("libbelow.so.1",)}, False),
        ("runpath", {"runpath": "${ORIGIN}/below", "needed": ("libbelow.so.1",)}, False),
        ("no path at all", {"needed": ("libbelow.so.1",)}, True),
    ],
)
def test_on_a_stub_and_the_glibc_of_this_machine(
    tmp_path: Path, name: str, more: dict[str, tuple[object, ...]], fails: bool
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "libbelow.so.1").write_bytes(stub("libbelow.so.1"))
    user = tmp_path / "libuser.so"
    needs = [*more.get("needs", ()), *more.get("needed", ())]
    options = {key: value for key, value in more.items() if key not in ("needs", "needed")}
    user.write_bytes(stub("libuser.so", *needs, **options))  # type: ignore[arg-type]
    done = subprocess.run([sys.executable, "-c", OPENS, user], capture_output=True, text=True, timeout=60)
    assert bool(done.returncode) == fails, (name, done.stderr)
    agrees(find_closure([str(user)], files_of_host(), read_search({})), done.stderr, fails)


@dataclass(frozen=True)
class InContainer:
    """An image, and host libraries that take precedence over its own."""

    name: str
    image: Stubs
    host: Stubs | None
    refused: str
    """Name that both the loader's output and the verdict must contain; empty if the image works."""


CASES = (
    InContainer("all its own", {**fabric("20.0"), **plugin("FABRIC_1.3")}, None, ""),
    InContainer("no libfabric", plugin("FABRIC_1.3"), None, "libfabric.so.1"),
    InContainer("built against a newer libfabric", {**fabric("20.0"), **plugin("FABRIC_1.8")}, None, "FABRIC_1.8"),
    InContainer("swapped, newer", {**fabric("20.0"), **plugin("FABRIC_1.8")}, fabric("30.0", upto=8, directory=""), ""),
    InContainer(
        "swapped, older", {**fabric("30.0", upto=8), **plugin("FABRIC_1.8")}, fabric("18.2", directory=""), "FABRIC_1.8"
    ),
    InContainer(
        "swapped, without its own libraries",
        {**fabric("20.0"), **plugin()},
        fabric("25.0", "libcxi.so.1", directory=""),
        "libcxi.so.1",
    ),
    InContainer(
        "swapped, of a newer glibc", {**fabric("20.0"), **plugin()}, fabric("27.0", TOO_NEW, directory=""), "GLIBC_2.99"
    ),
    InContainer(
        "swapped, but for a plugin with an rpath",
        {**fabric("20.0"), **plugin("FABRIC_1.8", rpath="/usr/lib64")},
        fabric("30.0", upto=8, directory=""),
        "FABRIC_1.8",
    ),
)


@pytest.fixture(scope="module")
def of_this_machine() -> Stubs:
    """The loader and libc of this machine, the least that an image needs for the loader to run."""
    files, search = files_of_host(), read_search({})
    libc = Path(find_library("libc.so.6", files, search)).read_bytes()
    return {LOADER: Path(LOADER).read_bytes(), "/usr/lib64/libc.so.6": libc, "/usr/lib64/x": "", "/host/lib/x": ""}


@pytest.mark.stack
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inside_containers(stack: Stack, tmp_path: Path, of_this_machine: Stubs, case: InContainer) -> None:
    image = make_stack(tmp_path / "image.sif", {**of_this_machine, **case.image})
    captured = tmp_path / "captured"
    for name, content in (case.host or {}).items():
        captured.mkdir(exist_ok=True)
        place = captured / name.lstrip("/")
        place.write_bytes(content) if isinstance(content, bytes) else place.symlink_to(content.target)  # type: ignore[union-attr]
    netstack = Netstack((Bind(str(captured), IN_CONTAINER),)) if case.host else Netstack()
    site = Site("here", network=Network(("hsn0",), netstack=netstack))  # so that a failing plugin matters
    binds = ["--bind", f"{captured}:{IN_CONTAINER}"] if case.host else []
    path = {"APPTAINERENV_LD_LIBRARY_PATH": make_library_path(("/usr/lib64",)) if case.host else "/usr/lib64"}
    asked = [str(stack.apptainer), "-s", "exec", *binds, str(image), LOADER, "--list", "/usr/lib64/libnccl-net.so"]
    done = run(asked, stack.environment(tmp_path, **path))
    said = done.stdout + done.stderr
    verdict = check_compat(image, site, {})
    shown = "\n".join(one.found for one in verdict.findings)
    fails = done.returncode != 0 or "not found (required by" in said  # the loader continues after a version mismatch
    assert fails == bool(case.refused), said
    assert case.refused in said
    assert (verdict.level == FAIL) == bool(case.refused), shown
    assert case.refused in shown
    if not case.refused:
        (loaded,) = make_case(image, site, {}).of(PLUGIN)
        assert loaded.fabric is not None
        assert f"libfabric.so.1 => {loaded.fabric.path} " in said


@pytest.fixture(scope="module")
def two_releases(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An image with the next Debian's libfabric and a plugin that needs it, and this machine's libfabric, captured."""
    if missing_fabric(stack):
        pytest.skip(missing_fabric(stack))
    work = tmp_path_factory.mktemp("two")
    make_fabric_image(stack, work).unlink()
    for path, content in plugin("FABRIC_1.8", path=f"/{LIBRARIES}/libnccl-net.so").items():
        (work / "root" / path.lstrip("/")).write_bytes(bytes(content))  # type: ignore[arg-type]
    image = pack_image(stack, work / "root", work / "plugin.sif")
    capture = plan_capture(["libfabric.so.1"], {})
    captured, _ = write_capture(capture, work / "netstack", tell=print)
    return image, captured


@pytest.mark.stack
@pytest.mark.parametrize("swap", [False, True])
def test_with_two_real_releases_of_libfabric(
    stack: Stack, tmp_path: Path, two_releases: tuple[Path, Path], swap: bool
) -> None:
    image, captured = two_releases
    netstack = Netstack((Bind(str(captured), IN_CONTAINER),)) if swap else Netstack()
    site = Site("here", network=Network(netstack=netstack))
    path = {"APPTAINERENV_LD_LIBRARY_PATH": make_library_path(())} if swap else {}
    binds = ["--bind", f"{captured}:{IN_CONTAINER}"] if swap else []
    asked = [str(stack.apptainer), "-s", "exec", *binds, str(image), LOADER, "--list", f"/{LIBRARIES}/libnccl-net.so"]
    done = run(asked, stack.environment(tmp_path, **path))
    said = done.stdout + done.stderr
    case = make_case(image, site, {})
    (loaded,) = case.of(PLUGIN)
    assert loaded.fabric is not None
    assert (case.image.fabrics[0].release, loaded.fabric.release) == ("2.1.0", "1.17.0" if swap else "2.1.0")
    assert f"libfabric.so.1 => {loaded.fabric.path} " in said
    verdict = check_compat(image, site, {})
    assert ("`FABRIC_1.8' not found" in said) == swap
    assert (verdict.level == FAIL) == swap, [one.found for one in verdict.findings]
    assert any("does not define FABRIC_1.8" in one.found for one in verdict.at(FAIL)) == swap
