"""hpcmod compat: seconds for small and large SIFs, compared with starting the image, the other way to find out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.measure import Row, alternate, must
from tests.stack import Stack
from tests.stacks import Stubs, fabric, glibc, make_stack, mpich, plugin, stub

TITLE = "The verdict on an image"
AIM = "< 1 s"
LIBRARIES, FILES, MIB = 300, 20_000, 1 << 20


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure the command as a user waits for it; four libraries make up the large image, a quarter each."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(work), "HPCMOD_SITE": "lumi"}
    hpcmod = stack.python.parent / "hpcmod"
    large = make_stack(work / "large.sif", _large(megabytes), compression="zstd")
    images = {"tiny": stack.tiny_sif, "torch": stack.torch_sif, "large": large}
    run = partial(must, env=env, cwd=work)
    took = alternate(2 * rounds, {
        **{name: partial(run, [hpcmod, "compat", image]) for name, image in images.items() if image.exists()},
        "start": partial(run, [stack.apptainer, "exec", stack.tiny_sif, "true"]),
        "python": partial(run, [stack.python, "-c", "import click"]),
    })  # fmt: skip
    beside = f"start an image {1000 * took['start']:.0f} ms, python with click {1000 * took['python']:.0f} ms"
    for name, image in images.items():
        if name in took:
            what = f"{name}, {image.stat().st_size / 1e6:.0f} MB"
            yield Row(what, f"{1000 * took[name]:.0f} ms", beside, f"{took[name] / took['start']:.1f}", AIM)


def _large(megabytes: int) -> Stubs:
    """Return an image with MPI, libfabric and plugin, each of which needs 300 libraries, four large ones, and 20,000
    files.
    """
    names = [f"libpart{number}.so.1" for number in range(LIBRARIES)]
    noise = random.Random(1).randbytes(MIB)  # noqa: S311 - incompressible
    large = {
        f"/usr/lib64/liblarge{number}.so.1": stub(f"liblarge{number}.so.1", filler=noise * (megabytes // 4))
        for number in range(4)
    }
    small = {f"/usr/lib64/{name}": stub(name, "liblarge0.so.1", "liblarge1.so.1") for name in names}
    files = {f"/usr/share/many/{number % 100}/{number}": noise[number : number + 200] for number in range(FILES)}
    return {
        **glibc(),
        **fabric("22.1", *names),
        **mpich("12.3.1", *names),
        **plugin("FABRIC_1.3", *names),
        **large,
        **small,
        **files,
    }
