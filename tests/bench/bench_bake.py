"""Adding 200 MB of packages to an image: hpcmod bake compared with Apptainer and a definition file.

HPCMOD_BENCH_SIF  the image (default: the test stack's image with PyTorch)
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measure import Row, alternate, must
from tests.stack import Stack

TITLE = "Adding packages to an image"
_HPCMOD = "from hpcmod.cli.main import main; main()"
_FILES, _SIZE = 4000, 50_000
_COMPRESSION = "-comp zstd -Xcompression-level 3"


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure both in alternation; the packages are in a directory, as on a user's machine."""
    del megabytes
    packages, sif = make_packages(work / "packages"), Path(os.environ.get("HPCMOD_BENCH_SIF") or stack.torch_sif)
    definition = work / "x.def"
    definition.write_text(f"Bootstrap: localimage\nFrom: {sif}\n\n%files\n    {packages} /user-software\n")
    environ = {**os.environ, "HOME": str(work), "HPCMOD_SITE": "generic", "APPTAINER_CACHEDIR": str(work / "cache")}
    words = ["bake", "--force", sif, "--packages", packages, "-o", work / "baked.sif"]
    built, arguments = work / "built.sif", ["--force", "--mksquashfs-args", _COMPRESSION]

    def build(*more: str) -> None:
        must([stack.apptainer, "build", *more, built, definition], env=environ)

    ways = {
        "bake": lambda: must([sys.executable, "-c", _HPCMOD, *words], env=environ),
        "gzip 9": lambda: build("--force"),
        "zstd 3": lambda: build(*arguments),
    }
    taken = alternate(rounds, ways)
    image = sif.stat().st_size / 1e6
    for name in ("gzip 9", "zstd 3"):
        ratio = f"{taken[name] / taken['bake']:.1f} x"
        what = f"hpcmod bake, an image of {image:.0f} MB"
        yield Row(what, f"{taken['bake']:.1f} s", f"apptainer build, {name}: {taken[name]:.1f} s", ratio, "10 x")


def make_packages(top: Path) -> Path:
    """Write files that compress to about half their size, as libraries do."""
    site = top / "venv/mine/lib/python3.11/site-packages"
    chance = random.Random(1)  # noqa: S311 - test data
    words = [chance.randbytes(8) for _ in range(256)]
    for number in range(_FILES):
        place = site / f"package{number // 100}"
        place.mkdir(parents=True, exist_ok=True)
        half = chance.randbytes(_SIZE // 2)
        (place / f"m{number}.bin").write_bytes(half + b"".join(chance.choices(words, k=_SIZE // 16)))
    return top
