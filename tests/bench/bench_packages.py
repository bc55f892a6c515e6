"""A user's packages, 10,000 files: adding, undoing, and importing in 8 ranks, compared with pip and LUMI's method.

`--megabytes N` makes 10 N files, in 20 packages. LUMI's method is pip in a container, on the directory that the module
binds at /user-software, then the mksquashfs command of its make-squashfs.
All directories are on the disk of dev/stack; on a parallel file system the difference is larger.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.bench.measure import Row, alternate, must
from tests.integration.conftest import write_easyconfig
from tests.stack import EasyBuild, Stack
from tests.wheels import make_wheel

TITLE = "A user's own packages"
RANKS = 8
PACKAGES = 20
IMPORTED = 5  # each rank imports one of this many files
INSIDE = "/user-software"
VENV = f"{INSIDE}/venv/toy/bin"
_HPCMOD = "from hpcmod.cli.main import main; main()"


@dataclass(frozen=True)
class Bench:
    """An installed module Toy/1.0, and wheels for it."""

    stack: Stack
    work: Path
    environ: Mapping[str, str]
    names: tuple[str, ...]
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def hpcmod(self, *words: str | Path) -> str:
        return must([sys.executable, "-c", _HPCMOD, *words], env=self.environ, cwd=self.work).stdout

    def pip(self, bind: Path, *words: str) -> None:
        """Run the container's pip with a directory bound at /user-software."""
        offline = ["--no-index", f"--find-links={self.work / 'wheels'}", "--disable-pip-version-check", "-q"]
        argv = [self.stack.apptainer, "exec", "--bind", f"{bind}:{INSIDE}", self.stack.tiny_sif, f"{VENV}/python"]
        must([*argv, "-m", "pip", "install", *offline, *words, *self.names], env=self.environ, cwd=self.work)

    def add(self) -> None:
        offline = ("--no-index", "--wheel-dir", self.work / "wheels")
        self.hpcmod("add", "Toy", "--set", f"set{next(self.numbers)}", *offline, *self.names)

    def plain(self) -> None:
        """Install into a plain directory, not packed."""
        self.pip(self.copy_of_venv(), f"--target={INSIDE}/plain")

    def lumi(self) -> Path:
        """Install into the virtual environment, and pack it; return the squashfs."""
        place = self.copy_of_venv()
        self.pip(place)
        packed = place.with_suffix(".squashfs")
        must(["mksquashfs", place, packed, "-processors", "1", "-no-progress"])
        return packed

    def copy_of_venv(self) -> Path:
        """Return a new copy of the virtual environment of the installation."""
        place = self.work / f"user-software-{next(self.numbers)}"
        shutil.copytree(Path(self.environ["EASYBUILD_PREFIX"], "software/Toy/1.0/user-software"), place, symlinks=True)
        return place

    def import_in_ranks(self, bind: str) -> None:
        """Start 8 containers at once; each imports part of every package."""
        argv = [self.stack.apptainer, "exec", "--bind", bind, self.stack.tiny_sif, f"{VENV}/python", "-c"]
        words = [str(word) for word in [*argv, "import " + ", ".join(self.names)]]
        ranks = [subprocess.Popen(words, env=dict(self.environ), stderr=subprocess.PIPE) for _ in range(RANKS)]
        said = [rank.communicate()[1] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise SystemExit(f"a rank failed: {said[0].decode()}")


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure everything with the same wheels."""
    files = 10 * megabytes
    bench = prepare(stack, work, files)
    took = alternate(rounds, {"add": bench.add, "plain": bench.plain, "lumi": bench.lumi})
    what = f"hpcmod add, {files} files"
    yield compare(what, took["add"], "pip install --target DIR", took["plain"], "<= 1.3 x")
    yield compare(what, took["add"], "pip in a shell, mksquashfs (LUMI)", took["lumi"], "")
    packed, state = bench.lumi(), state_of(bench, "set1")
    directory = packed.with_suffix("")
    yield Row("files of a set", str(files_in(state.parents[1])), f"as a directory: {files_in(directory)}", "", "1")
    binds = {
        "ours": f"{state}:{INSIDE}:image-src=/,ro",
        "directory": f"{directory}:{INSIDE}",
        "lumi": f"{packed}:{INSIDE}:image-src=/",
    }
    took = alternate(rounds, {name: lambda bind=bind: bench.import_in_ranks(bind) for name, bind in binds.items()})
    what = f"{RANKS} ranks import {files // IMPORTED} modules"
    yield compare(what, took["ours"], "from the directory", took["directory"], "")
    yield compare(what, took["ours"], "from LUMI's squashfs", took["lumi"], "")
    yield from measure_undo(bench, rounds)


def prepare(stack: Stack, work: Path, files: int) -> Bench:
    """Install Toy/1.0 and write the wheels."""
    (work / "central").mkdir()
    (work / "central/toy.sif").symlink_to(stack.tiny_sif)
    eb = EasyBuild(stack, work, work / "central")
    done = eb(write_easyconfig(work), HPCMOD_SITE="generic")
    if done.returncode:
        raise SystemExit(done.stdout)
    own = {"HPCMOD_SITE": "generic", "MODULEPATH": str(eb.modules), "HOME": str(work)}
    names = tuple(f"package{number:02}" for number in range(PACKAGES))
    for name in names:
        write_wheel(work / "wheels", name, files // PACKAGES)
    return Bench(stack, work, {**eb.environment(), **own}, names)


def write_wheel(directory: Path, name: str, files: int) -> None:
    """Write a package of `files` modules, of which it imports one in IMPORTED."""
    modules = {f"{name}/m{number}.py": f"VALUE = {number}\n" + "# a line of text\n" * 100 for number in range(files)}
    parts = "".join(f"from {name} import m{number}\n" for number in range(0, files, IMPORTED))
    make_wheel(directory, name, "1.0", files={f"{name}/__init__.py": parts, **modules})


def measure_undo(bench: Bench, rounds: int) -> Iterator[Row]:
    """Measure returning to the previous state, from the second state each time."""
    offline = ("--no-index", "--wheel-dir", bench.work / "wheels")
    bench.hpcmod("add", "Toy", "--set", "undone", *offline, bench.names[0])
    bench.hpcmod("add", "Toy", "--set", "undone", *offline, bench.names[1])
    took = alternate(
        2 * rounds,
        {"undo": lambda: bench.hpcmod("undo", "Toy", "--set", "undone")},
        before=lambda: bench.hpcmod("packages", "Toy", "--set", "undone", "--use", "2"),
    )
    started = alternate(2 * rounds, {"start": lambda: bench.hpcmod("--version")})["start"]
    yield Row("hpcmod undo", f"{took['undo']:.2f} s", f"hpcmod --version: {started:.2f} s", "", "< 0.2 s")


def compare(what: str, ours: float, other: str, theirs: float, aim: str) -> Row:
    return Row(what, f"{ours:.2f} s", f"{other}: {theirs:.2f} s", f"{ours / theirs:.2f} x", aim)


def state_of(bench: Bench, name: str) -> Path:
    """Return the file of a set's active state."""
    shown = json.loads(bench.hpcmod("packages", "Toy", "--set", name, "--json"))
    (state,) = Path(shown["directory"]).glob("states/*.squashfs")
    return state


def files_in(directory: Path) -> int:
    return sum(path.is_file() and not path.is_symlink() for path in directory.rglob("*"))
