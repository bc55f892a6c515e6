"""Compare this checkout of hpcmod with another: installing, fetching, converting, and loading the module.

HPCMOD_BENCH_BESIDE the other checkout, for example a worktree of an earlier commit
HPCMOD_BENCH_DIR    directory of the test images, which are kept; by default they are made again for each run
HPCMOD_BENCH_IMAGES images to convert: layers-gzip,tiny-gzip,one-gzip
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import oci_images
from tests.bench.bench_install import OURS, make_big_image
from tests.bench.measure import Row, must
from tests.registry import run_registry
from tests.stack import CHECKOUT, EasyBuild, Stack

TITLE = "This checkout compared with another"
AIM = "<= 1.15"
IMAGES = "layers-gzip,tiny-gzip"
SIDES = ("this", "other")


@dataclass(frozen=True)
class Took:
    """Times of one run, in seconds."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.3f} s, CPU {self.cpu:.3f} s"


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure both checkouts; `megabytes` is the size of the image to install and fetch."""
    other = os.environ.get("HPCMOD_BENCH_BESIDE", "")
    if not (Path(other) / "src" / "hpcmod").is_dir():
        raise SystemExit("HPCMOD_BENCH_BESIDE must be the absolute path of another checkout of hpcmod")
    sides = {"this": CHECKOUT, "other": Path(other)}
    image = make_big_image(stack, work, megabytes)
    installed = {side: _easybuild(stack, work / side, image, sides[side]) for side in SIDES}
    recipe = _recipe(work, image, "Big")
    yield _row(f"install, {megabytes} MB", rounds, {
        side: lambda side=side: _eb(installed[side], recipe) for side in SIDES  # type: ignore[misc]
    }, lambda: [shutil.rmtree(eb.prefix / "software", ignore_errors=True) for eb in installed.values()])  # fmt: skip
    yield from _load(stack, work, installed, 10 * rounds)
    out = work / "out.sif"
    clear = lambda: (out.unlink(missing_ok=True), out.with_name("out.sif.provenance.json").unlink(missing_ok=True))  # noqa: E731
    env = {side: _environment(stack, work / side, sides[side]) for side in SIDES}
    yield _row(f"fetch of a file, {megabytes} MB", rounds, _hpcmod(env, "fetch", str(image), "-o", str(out)), clear)
    kept = Path(os.environ.get("HPCMOD_BENCH_DIR") or work / "images")
    kept.mkdir(parents=True, exist_ok=True)
    with run_registry(work / "registry") as registry:
        for name in os.environ.get("HPCMOD_BENCH_IMAGES", IMAGES).split(","):
            layout = oci_images.make(name.split("-")[0], kept, name.split("-")[1])
            registry.push_layout(layout, name, "1")
            words = ("fetch", "--no-cache", f"docker://{registry.host}/{name}:1", "-o", str(out))
            yield _row(f"fetch from a registry, {name}", rounds, _hpcmod(env, *words), clear)
            yield _row(f"convert, {name}", rounds, _hpcmod(env, "fetch", f"oci:{layout}", "-o", str(out)), clear)


def _row(what: str, rounds: int, work: Mapping[str, Callable[[], object]], before: Callable[[], object]) -> Row:
    """Run both sides once per round; which one runs first changes every round."""
    taken: dict[str, list[Took]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES[:: -1 if number % 2 else 1]:
            before()
            taken[side].append(_timed(work[side]))
    this, other = (_median(taken[side]) for side in SIDES)
    ratio = f"wall {this.wall / other.wall:.2f}, CPU {this.cpu / other.cpu:.2f}"
    return Row(
        what, f"{this.wall:.3f} s, CPU {this.cpu:.3f} s", f"{other.wall:.3f} s, CPU {other.cpu:.3f} s", ratio, AIM
    )


def _timed(do: Callable[[], object]) -> Took:
    began, used = time.perf_counter(), _cpu()
    do()
    return Took(time.perf_counter() - began, _cpu() - used)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _median(taken: list[Took]) -> Took:
    return Took(statistics.median(one.wall for one in taken), statistics.median(one.cpu for one in taken))


def _variables(top: Path, checkout: Path) -> dict[str, str]:
    """Return the variables that make Python and EasyBuild use hpcmod from a checkout."""
    return {
        "PYTHONPATH": str(checkout / "src"),
        "PYTHONPYCACHEPREFIX": str(top / "bytecode"),
        "EASYBUILD_INCLUDE_EASYBLOCKS": str(checkout / "easyblocks" / "*.py"),
    }


def _environment(stack: Stack, top: Path, checkout: Path) -> dict[str, str]:
    (top / "home").mkdir(parents=True, exist_ok=True)
    return stack.environment(top / "home", HPCMOD_SITE="generic", **_variables(top, checkout))


def _hpcmod(env: Mapping[str, Mapping[str, str]], *words: str) -> dict[str, Callable[[], object]]:
    argv = [sys.executable, "-c", "from hpcmod.cli.main import main; main()", *words]
    return {side: lambda side=side: must(argv, env=env[side], cwd="/") for side in SIDES}  # type: ignore[misc]


def _easybuild(stack: Stack, top: Path, image: Path, checkout: Path) -> EasyBuild:
    top.mkdir()
    return EasyBuild(stack, top, image.parent, variables=_variables(top, checkout))


def _recipe(work: Path, image: Path, name: str) -> Path:
    recipe = work / f"{name}-1.eb"
    sha256 = must(["sha256sum", image]).stdout.split()[0]
    recipe.write_text(OURS.format(name=name, image=image.name, sha256=sha256, mode="copy"))
    return recipe


def _eb(eb: EasyBuild, recipe: Path) -> subprocess.CompletedProcess[str]:
    done = eb(recipe, "--rebuild")
    if done.returncode:
        raise SystemExit(done.stdout)
    return done


def _load(stack: Stack, work: Path, installed: Mapping[str, EasyBuild], rounds: int) -> Iterator[Row]:
    """Load the module that each side installed from the same easyconfig."""
    env = {side: {**stack.environment(work), "MODULEPATH": str(eb.modules)} for side, eb in installed.items()}
    load = [stack.lmod_cmd, "bash", "load", "Big"]
    yield _row("module load", rounds, {
        side: lambda side=side: must(load, env=env[side]) for side in SIDES  # type: ignore[misc]
    }, lambda: None)  # fmt: skip
