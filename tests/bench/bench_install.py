"""Installing an image: bytes moved and wall time, compared with MakeCp, `cp`, `sha256sum` and EasyBuild's own minimum.

All `eb` runs find the byte code of EasyBuild and hpcmod cached, as in an environment that the user can write to.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hpcmod.core.fs.checksums import file_sha256
from tests.bench.measure import Row, alternate, must, traced_bytes
from tests.stack import EasyBuild, Stack

TITLE = "Installing an image"
CALLS = "read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,pwritev2,copy_file_range,sendfile"

OURS = """easyblock = 'ContainerModule'
name = '{name}'
version = '1'
homepage = 'https://example.org/'
description = "benchmark"
toolchain = SYSTEM
sources = ['{image}']
checksums = ['{sha256}']
install_mode = '{mode}'
moduleclass = 'ai'
"""

STOCK = """easyblock = 'MakeCp'
name = '{name}'
version = '1'
homepage = 'https://example.org/'
description = "benchmark"
toolchain = SYSTEM
sources = [{{'filename': '{image}', 'extract_cmd': "/bin/cp -L %s ."}}]
checksums = ['{sha256}']
skipsteps = ['build']
start_dir = '%(builddir)s'
files_to_copy = [(['{image}'], '.')]
sanity_check_paths = {{'files': ['{image}'], 'dirs': []}}
moduleclass = 'ai'
"""


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure with an image of about `megabytes` MB."""
    image = make_big_image(stack, work, megabytes)
    size = image.stat().st_size
    sha256 = must(["sha256sum", image]).stdout.split()[0]
    eb = EasyBuild(stack, work, image.parent, variables={"PYTHONPYCACHEPREFIX": str(work / "bytecode")})
    recipes = {
        "ours": _write(work, "Ours", OURS, image, sha256, mode="copy"),
        "ours, hard link": _write(work, "OursLink", OURS, image, sha256, mode="link"),
        "MakeCp": _write(work, "Stock", STOCK, image, sha256),
    }
    yield from _bytes(eb, recipes, image.name, size)
    yield from _wall(eb, recipes, image, work, rounds)


def make_big_image(stack: Stack, work: Path, megabytes: int) -> Path:
    """Make a real image that starts and has `megabytes` MiB of random bytes in it."""
    image = work / "central" / "big.sif"
    image.parent.mkdir(parents=True, exist_ok=True)
    sandbox = work / "sandbox"
    env = stack.environment(work)
    must([stack.apptainer, "build", "--force", "--sandbox", sandbox, stack.tiny_sif], env=env)
    with (sandbox / "blob").open("wb") as blob, Path("/dev/urandom").open("rb") as random:
        for _ in range(megabytes):
            blob.write(random.read(1 << 20))
    packing = "-comp zstd -Xcompression-level 1 -noD -noF"
    must([stack.apptainer, "build", "--force", "--mksquashfs-args", packing, image, sandbox], env=env)
    shutil.rmtree(sandbox)
    return image


def _write(work: Path, name: str, form: str, image: Path, sha256: str, **more: str) -> Path:
    path = work / f"{name}-1.eb"
    path.write_text(form.format(name=name, image=image.name, sha256=sha256, **more))
    return path


def _install(eb: EasyBuild, recipe: Path) -> None:
    done = eb(recipe, "--rebuild")
    if done.returncode:
        raise SystemExit(done.stdout)


def _clear(eb: EasyBuild, image: Path, copy: Path) -> None:
    """Remove everything of the previous round that could be kept or overwritten, and free the same memory for all runs.

    A virtual machine may have to give back memory that it has not used for two seconds, and gets it back slowly: a copy
    makes that happen before the measurement.
    """
    shutil.rmtree(eb.prefix / "software", ignore_errors=True)
    shutil.copyfile(image, copy)
    copy.unlink()
    os.sync()


def _bytes(eb: EasyBuild, recipes: dict[str, Path], image: str, size: int) -> Iterator[Row]:
    if not shutil.which("strace"):
        yield Row("bytes moved", "not measured", "strace is not installed", "")
        return
    trace = eb.top / "trace"
    aims = {"ours": "<= 1.01 written, <= 2.03 read", "ours, hard link": "0 written", "MakeCp": ""}
    argv = ["strace", "-f", "-y", "-qq", "-o", trace, "-e", f"trace={CALLS}", eb.stack.python.parent / "eb"]
    for name, recipe in recipes.items():
        shutil.rmtree(eb.prefix, ignore_errors=True)
        must([*argv, recipe, "--rebuild"], env=eb.environment(), cwd=eb.top)
        read, written = traced_bytes(trace, image)
        text = f"{written / size:.2f} x written, {read / size:.2f} x read"
        yield Row(f"bytes of a {size / 1e9:.2f} GB image, {name}", text, "size of the image", "", aims[name])


def _wall(eb: EasyBuild, recipes: dict[str, Path], image: Path, work: Path, rounds: int) -> Iterator[Row]:
    small = eb.central / "small.bin"
    small.write_bytes(b"x" * 1000)
    sha256 = must(["sha256sum", small]).stdout.split()[0]
    floor = _write(work, "Floor", STOCK, small, sha256)
    tasks = {name: lambda recipe=recipe: _install(eb, recipe) for name, recipe in recipes.items()}
    tasks["floor"] = lambda: _install(eb, floor)
    tasks["cp"] = lambda: must(["cp", image, work / "copy.sif"])
    tasks["hash"] = lambda: file_sha256(image)
    tasks["sha256sum"] = lambda: must(["sha256sum", image])
    took = alternate(rounds, tasks, before=lambda: _clear(eb, image, work / "copy.sif"))
    for name, limit, aim in (("1.3 x cp", 1.3 * took["cp"], "<= 1"), ("one hash in Python", took["hash"], "")):
        beside = f"EasyBuild's floor {took['floor']:.2f} s + {name} {limit:.2f} s"
        yield Row("ours, wall", f"{took['ours']:.2f} s", beside, f"{took['ours'] / (took['floor'] + limit):.2f}", aim)
    for name in ("ours, hard link", "MakeCp", "sha256sum"):
        yield Row(
            f"{name}, wall", f"{took[name]:.2f} s", f"ours {took['ours']:.2f} s", f"{took[name] / took['ours']:.2f}"
        )
