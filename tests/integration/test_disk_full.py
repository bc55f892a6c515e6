"""A disk that fills up at any point: a clear error, nothing half, the old module untouched, and room made is all it takes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import TOY_IMAGE, make_images, sha256_of, use_image, write_easyconfig
from tests.stack import Done, EasyBuild, ModuleTool, run

pytestmark = pytest.mark.stack

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class SmallDisk:
    """A file system in memory that an ordinary user may mount, and fill, in a namespace of its own."""

    place: Path
    holder: int
    """Process that keeps the namespace."""

    def enter(self, *argv: str) -> list[str]:
        """Make the command that runs another in the namespace, as root there."""
        return ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", str(self.holder), *argv]

    def as_user(self, *argv: str) -> list[str]:
        """Make the command that runs another in the namespace, as the user of the tests: EasyBuild refuses root."""
        me = (f"--map-user={os.getuid()}", f"--map-group={os.getgid()}")
        return self.enter("unshare", "--user", *me, *argv)

    def __call__(self, *argv: str, env: Mapping[str, str] = os.environ) -> Done:
        return run(self.as_user(*argv), env, self.place.parent)

    def resize(self, size: int) -> None:
        """Make the disk so many bytes large."""
        # all of it said anew: with the place alone mount looks up options that it may not set in a namespace
        mount = ("mount", "-t", "tmpfs", "-o", f"remount,size={size}", "disk", str(self.place))
        subprocess.run(self.enter(*mount), check=True)

    def free(self) -> int:
        return int(self("stat", "-f", "-c", "%a", str(self.place)).stdout) * 4 * KIB

    def size(self) -> int:
        return int(self("stat", "-f", "-c", "%b", str(self.place)).stdout) * 4 * KIB

    def leave_free(self, size: int) -> None:
        """Resize the disk so that so many bytes are free."""
        self.resize(self.size() - self.free() + size)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    script = 'mount -t tmpfs -o size=1G disk "$1" && echo mounted && read -r'
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
    """Toy, to be installed on a small disk; everything else of EasyBuild is on the large one."""

    eb: EasyBuild
    lmod: ModuleTool
    disk: SmallDisk
    easyconfig: Path

    def install(self, *args: str) -> Done:
        script = 'exec "$@" 2>&1'
        eb = str(self.eb.stack.python.parent / "eb")
        env = {**self.eb.environment(), "EASYBUILD_INSTALLPATH": str(self.disk.place)}
        return self.disk("bash", "-c", script, "eb", eb, str(self.easyconfig), *args, env=env)

    def generation(self) -> str:
        """Load the module and ask the container which it is; empty if there is none to load."""
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
        return {name for name in self.files() if "hpcmod-part" in name or name.endswith(".lock")}


@pytest.fixture
def trial(eb: EasyBuild, lmod: ModuleTool, disk: SmallDisk, images: list[Path], tmp_path: Path) -> Trial:
    use_image(eb, images[0])
    return Trial(eb, lmod, disk, write_easyconfig(tmp_path))


def test_x(trial, images):
    S = images[0].stat().st_size
    d = trial.install()
    print(d.returncode, d.stdout[-300:])
    print(trial.generation(), trial.disk.size() - trial.disk.free() - S)
    print(trial.files())
    for spare in (
        -S,
        -1 << 20,
        0,
        4096,
        16384,
        32 << 10,
        64 << 10,
        96 << 10,
        128 << 10,
        160 << 10,
        192 << 10,
        224 << 10,
        256 << 10,
        320 << 10,
        400 << 10,
    ):
        trial.disk("bash", "-c", f"rm -rf {trial.disk.place}/*; rm -rf {trial.disk.place}/.[a-z]*")
        trial.disk.leave_free(S + spare or 65536)
        d = trial.install()
        e = [l for l in d.stdout.splitlines() if "ERROR" in l or "Error" in l or "pace" in l]
        print("=====", spare, d.returncode, "\n".join(e)[:900])
        print("GEN", trial.generation(), trial.leftovers(), len(trial.files()))
    assert 0
