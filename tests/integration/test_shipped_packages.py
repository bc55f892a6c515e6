"""Packages that an easyconfig names (`user_packages`), with real EasyBuild and the image's pip."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.integration.conftest import EasyBuild, files_below, leftovers, write_easyconfig
from tests.integration.test_other_users import home
from tests.integration.test_shared_prefix import run as run_as_member
from tests.integration.test_user_packages import INSIDE, SHOW
from tests.stack import Done, ModuleTool
from tests.users import Users
from tests.wheels import make_wheel

__all__ = ["home"]

pytestmark = pytest.mark.stack

OFFLINE = ["--find-links=wheels", "--no-index"]
RUN = f'singularity exec $SIF python -c "{SHOW}"'


@dataclasses.dataclass(frozen=True)
class Site:
    """Toy 1.0 with packages, and the module tool that loads it."""

    eb: EasyBuild
    tool: ModuleTool
    directory: Path
    """Of the easyconfig and of the wheels."""

    @property
    def root(self) -> Path:
        return self.eb.prefix / "software/Toy/1.0"

    def install(self, *packages: str, options: tuple[str, ...] = (), **env: str) -> Done:
        path = write_easyconfig(self.directory, **({"user_packages": [*packages, *OFFLINE]} if packages else {}))
        return self.eb(path, *options, HPCMOD_SITE="generic", **env)

    def must(self, *packages: str, **env: str) -> str:
        done = self.install(*packages, options=("--rebuild",), **env)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def seen(self) -> str:
        """Load Toy and return the version of einops; empty if there is none."""
        done = self.tool(f"module load Toy/1.0 && {RUN}", self.eb.modules)
        assert done.returncode == 0 or "No module named 'einops'" in done.stderr, done.stderr
        version, _, path = done.stdout.strip().partition(" ")
        assert path in ("", INSIDE)
        return version

    def hpcmod(self, *words: str) -> Done:
        own = {"MODULEPATH": str(self.eb.modules), "EASYBUILD_PREFIX": str(self.eb.prefix), "HPCMOD_SITE": "generic"}
        return self.eb.hpcmod(*words, cwd=self.directory, **own, HOME=str(self.tool.home))


@pytest.fixture
def site(request: pytest.FixtureRequest, eb: EasyBuild, toy: Path, tmp_path: Path) -> Site:
    """Before anything is installed; by default with Lmod."""
    tool, syntax = getattr(request, "param", ("lmod", "Lua"))
    wheels = toy.parent / "wheels"
    for version in ("0.8.0", "0.8.1"):
        make_wheel(wheels, "einops", version)
    make_wheel(wheels, "clash", "1.0", requires=["packaging<20"])
    own = dataclasses.replace(eb, modules_tool=tool, syntax=syntax)
    return Site(own, ModuleTool(eb.stack, tmp_path, tool), toy.parent)


@pytest.mark.parametrize("site", [("envmodules", "Tcl")], indirect=True, ids=["envmodules"])
def test_everybody_who_loads_the_module_has_the_packages(site: Site) -> None:
    """With another version after a rebuild, and none are left when the module is removed."""
    assert "installed einops 0.8.0" in site.must("einops<0.8.1")
    assert site.seen() == "0.8.0"
    assert "installed einops 0.8.1" in site.must("einops")
    assert site.seen() == "0.8.1"
    assert oct((site.root / "user-software.squashfs").stat().st_mode & 0o777) == "0o444"
    assert leftovers(site.eb) == set()
    done = site.hpcmod("remove", "Toy/1.0", "--yes")
    assert done.returncode == 0, done.stderr
    assert not site.root.exists(), files_below(site.root)


REFUSED = (
    ("no-such-package", 3, "no version of no-such-package fits Python 3.11 of Toy/1.0"),
    ("clash", 2, "clash conflicts with packaging"),
    ("-e .", 2, "user_packages:1: '-e .' is an editable installation"),
    ("-r none.txt", 3, "none.txt: no such file"),
)


def test_packages_that_cannot_be_installed_leave_those_of_before(site: Site) -> None:
    """And an update asks pip only if the image or the packages change."""
    site.must("einops<0.8.1")
    before = (site.root / "user-software.squashfs").stat()
    for package, code, said in REFUSED:
        done = site.install(package, options=("--rebuild",))
        assert (done.returncode, said in done.stdout) == (code, True), done.stdout[-3000:]
    assert leftovers(site.eb) == set()
    done = site.install("einops<0.8.1", options=("-x",))
    assert (done.returncode, "user package: einops<0.8.1" in done.stdout) == (0, True), done.stdout[-3000:]
    for wheel in (site.directory / "wheels").iterdir():
        wheel.unlink()
    site.must("einops<0.8.1", HPCMOD_UPDATE="1")
    after = (site.root / "user-software.squashfs").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert site.seen() == "0.8.0"


def test_packages_of_a_user_hide_them_and_are_neither_replaced_nor_removed(site: Site) -> None:
    site.must("einops<0.8.1")
    packed = site.root / "user-software.squashfs"
    offline = ("--wheel-dir", str(site.directory / "wheels"), "--no-index")
    done = site.hpcmod("add", "Toy", "einops", *offline)
    assert done.returncode == 0, done.stderr
    assert "hidden while these packages are active: those of the easyconfig, in" in done.stderr
    assert site.seen() == "0.8.1"
    mine = packed.read_bytes() + bytes(4096)  # another file, which the runtime also mounts
    assert "removed, because the easyconfig has no user_packages now" in site.must()
    assert not packed.exists()
    packed.write_bytes(mine)
    done = site.install("einops", options=("--rebuild",))
    assert (done.returncode, "would hide the packages in" in done.stdout) == (2, True), done.stdout[-3000:]
    assert site.hpcmod("remove", "Toy/1.0", "--yes").returncode == 0
    assert packed.read_bytes() == mine


def test_an_installation_below_a_shared_prefix_has_them(
    users: Users, home: Path, lmod: ModuleTool, tiny_sif: Path, tmp_path: Path
) -> None:
    prefix, source = users.shared_directory("project"), tmp_path / "source"
    for version in ("0.8.0", "0.8.1"):
        make_wheel(source / "wheels", "einops", version)
    (source / "toy.sif").symlink_to(tiny_sif)
    for wanted in ("0.8.0", "0.8.1"):
        path = write_easyconfig(source, user_packages=[f"einops=={wanted}", *OFFLINE])
        words = ("install", path, "--prefix", prefix, *(["--rebuild"] if wanted == "0.8.1" else []))
        done = run_as_member(lmod, home, tmp_path / "state", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        seen = lmod(f"module load Toy/1.0 && {RUN}", prefix / "modules/all")
        assert seen.stdout.split() == [wanted, INSIDE], seen.stderr
