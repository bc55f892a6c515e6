"""A disk that fills up at any point gives a clear error, leaves no partial files and keeps the old module working.

Once there is space, the installation succeeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import GUARD, make_images, use_image, write_easyconfig
from tests.stack import Done, EasyBuild, ModuleTool, run

pytestmark = pytest.mark.stack

KIB = 1 << 10
MIB = 1 << 20
HPCMOD = (sys.executable, "-c", "from hpcmod.core.cli.main import main; main()")


@dataclass(frozen=True)
class SmallDisk:
    """An in-memory file system that an ordinary user can mount and fill in a private namespace."""

    place: Path
    holder: int
    """PID of the process that keeps the namespace alive."""

    def enter(self, *argv: str) -> list[str]:
        """Return the command line that runs a command as root in the namespace."""
        return ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", str(self.holder), *argv]

    def as_user(self, *argv: str) -> list[str]:
        """Return the command line that runs a command in the namespace as the tests' user, as EasyBuild refuses
        root.
        """
        me = (f"--map-user={os.getuid()}", f"--map-group={os.getgid()}")
        return self.enter("unshare", "--user", *me, *argv)

    def __call__(self, *argv: str, env: Mapping[str, str] = os.environ) -> Done:
        return run(self.as_user(*argv), env, self.place.parent)

    def resize(self, size: int) -> None:
        """Resize the disk to this many bytes."""
        # repeat all of it: with only the path, mount would look up options that it may not set in a namespace
        mount = ("mount", "-t", "tmpfs", "-o", f"remount,size={size}", "disk", str(self.place))
        subprocess.run(self.enter(*mount), check=True)

    def free(self) -> int:
        return int(self("stat", "-f", "-c", "%a", str(self.place)).stdout) * 4 * KIB

    def size(self) -> int:
        return int(self("stat", "-f", "-c", "%b", str(self.place)).stdout) * 4 * KIB

    def leave_free(self, size: int) -> None:
        """Resize the disk so that this many bytes are free."""
        self.resize(self.size() - self.free() + size)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    # use a byte from the start, as size=0 would mean no limit
    script = 'mount -t tmpfs -o size=1G disk "$1" && echo >"$1/in-use" && echo mounted && read -r'
    argv = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", script, "disk", str(place)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mounted\n"
        yield SmallDisk(place, holder.pid)
        holder.communicate("")


@pytest.fixture(scope="module")
def images(tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_images(tiny_sif, tmp_path_factory.mktemp("images"), "one", "two", megabytes=1)


@dataclass(frozen=True)
class Trial:
    """Toy, to be installed on a small disk; the rest of EasyBuild is on the large one."""

    eb: EasyBuild
    lmod: ModuleTool
    disk: SmallDisk
    easyconfig: Path

    def install(self, *args: str) -> Done:
        script = 'exec "$@" 2>&1'
        env = {**self.eb.environment(), "EASYBUILD_INSTALLPATH": str(self.disk.place)}
        return self.disk("bash", "-c", script, "eb", *self.eb.command(self.easyconfig, *args), env=env)

    def generation(self) -> str:
        """Load the module and return the generation of its container; empty if there is no module."""
        snippet = (
            f"{self.lmod.prologue()} module use {self.disk.place}/modules/all; module load Toy || exit 9; "
            "singularity exec $SIF cat /generation && start-shell -c :"
        )
        done = self.disk("bash", "--norc", "-c", snippet, env=self.lmod.environment())
        assert done.returncode in (0, 9), done.stderr
        return done.stdout.strip().rpartition(" ")[2]

    def files(self) -> set[str]:
        done = self.disk("find", str(self.disk.place), "-type", "f", "-printf", "%P\\n")
        return set(done.stdout.split("\n")) - {""}

    def leftovers(self) -> set[str]:
        return {
            name for name in self.files() if "hpcmod-part" in name or ("/.locks/" in name and not name.endswith(GUARD))
        }


@pytest.fixture
def trial(eb: EasyBuild, lmod: ModuleTool, disk: SmallDisk, images: list[Path], tmp_path: Path) -> Trial:
    use_image(eb, images[0])
    return Trial(eb, lmod, disk, write_easyconfig(tmp_path))


def test_a_disk_too_full_for_easybuilds_files_leaves_no_partial_files(trial: Trial, images: list[Path]) -> None:
    trial.disk.leave_free(round_to_page(images[0].stat().st_size) + 112 * KIB)
    done = trial.install()
    assert done.returncode != 0
    assert "No space left on device" in error_of(done)
    assert trial.generation() in ("", "one")
    assert trial.leftovers() == set()


REBUILDS = {
    "the same image and nothing fits": (0, 0.0),
    "nearly all of the image fits": (1, 0.9999),
}
"""Which image to install over the first one, and how much of it fits, as a fraction."""


def test_what_does_not_fit_leaves_nothing_to_load_or_the_old_module(trial: Trial, images: list[Path]) -> None:
    """Run all cases on one disk, as each must leave it unchanged."""
    size = images[0].stat().st_size
    trial.disk.leave_free(round_to_page(size) + 40 * KIB)  # without some of the scripts
    done = trial.install()
    assert done.returncode == 5
    assert str(trial.disk.place) in error_of(done) and "no space" in error_of(done).lower()
    assert (trial.generation(), trial.leftovers()) == ("", set())
    trial.disk.leave_free(size + MIB)
    assert trial.install().returncode == 0
    assert trial.generation() == "one"
    before = trial.files()
    for what, (number, share) in REBUILDS.items():
        trial.disk.leave_free(round_to_page(images[1].stat().st_size * share))
        use_image(trial.eb, images[number])
        done = trial.install("--rebuild")
        assert done.returncode == 5, what
        assert "no space" in error_of(done).lower(), what
        assert trial.generation() == "one", what
        assert trial.files() == before, what


def test_a_container_is_removed_where_no_byte_is_free(trial: Trial) -> None:
    assert trial.install().returncode == 0
    trial.disk.leave_free(0)
    own = {"MODULEPATH": f"{trial.disk.place}/modules/all", "HPCMOD_SITE": "generic"}
    removed = trial.disk(*HPCMOD, "remove", "Toy", env={**trial.eb.environment(), **own})
    assert (removed.returncode, trial.files()) == (0, {"in-use"}), removed.stderr


def error_of(done: Done) -> str:
    """Return the error message in the output of `eb`."""
    return done.stdout.partition("ERROR:")[2].partition("\n\n")[0]


def round_to_page(size: float) -> int:
    return int(size) // (4 * KIB) * 4 * KIB


@pytest.mark.parametrize("free", [0, 1 * MIB])
def test_a_capture_of_libraries_that_does_not_fit_leaves_nothing(disk: SmallDisk, free: int) -> None:
    argv = [*HPCMOD, "site", "netstack", "capture", "libcrypto.so.3"]
    out = disk.place / "netstack"
    disk("mkdir", str(out))
    disk.leave_free(free)
    failed = disk(*argv, "--output", str(out))
    assert (failed.returncode, failed.stdout) == (5, "")
    assert "netstack capture --output" in failed.stderr
    assert disk("ls", str(out)).stdout == ""
    disk.leave_free(64 * MIB)
    again = disk(*argv, "--output", str(out))
    assert disk("ls", again.stdout.strip()).stdout.split()[:2] == ["libcrypto.so", "libcrypto.so.3"]
