"""Writing a squashfs: wall time, peak memory and size, compared with mksquashfs, `mksquashfs -tar` and tar2sqfs."""

from __future__ import annotations

import os
import shutil
import stat
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcmod.image.squashfs.codecs import codec
from hpcmod.image.squashfs.tree import Node
from hpcmod.image.squashfs.writer import SquashfsWriter
from tests.bench.measure import Row, must
from tests.stack import CHECKOUT, Stack

TITLE = "Writing a squashfs"

Run = tuple[float, int, int]
"""Seconds, peak resident bytes, bytes written."""


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure with the file tree of the image with torch; `megabytes` is not used."""
    tree, archive, out = work / "tree", work / "tree.tar", work / "out"
    must(["unsquashfs", "-quiet", "-no-progress", "-offset", "36864", "-dest", tree, stack.torch_sif])
    must(["tar", "--sort=name", "-C", tree, "-cf", archive, "."])
    quiet = ("-noappend", "-no-progress", "-quiet")
    for name, level in (("zstd", 3), ("gzip", 6)):
        options = ("-comp", name, "-Xcompression-level", str(level))
        theirs = {
            "mksquashfs": (["mksquashfs", tree, out, *options, *quiet], None),
            "mksquashfs -tar": (["mksquashfs", "-", out, "-tar", *options, *quiet], archive),
            "tar2sqfs": (["tar2sqfs", "-q", "-f", "-c", name, "-X", f"level={level}", out], archive),
        }
        here = [sys.executable, "-m", "tests.bench.bench_squashfs", tree, out, name, level]
        tasks = {"ours": (here, None), **{name: task for name, task in theirs.items() if shutil.which(task[0][0])}}
        found: dict[str, list[Run]] = {task: [] for task in tasks}
        for _ in range(rounds):
            for task, (argv, source) in tasks.items():
                found[task].append(_run([str(word) for word in argv], source, out))
        yield from _compare(f"{name} {level}", found)
    for block_size in (256, 1024):
        argv = [sys.executable, "-m", "tests.bench.bench_squashfs", tree, out, "zstd", 3, block_size << 10]
        seconds, _, size = _run([str(word) for word in argv], None, out)
        yield Row(f"zstd 3, ours, blocks of {block_size} KiB", f"{seconds:.2f} s, {size / 1e6:.1f} MB", "once", "")


def _run(argv: Sequence[str], source: Path | None, out: Path) -> Run:
    out.unlink(missing_ok=True)
    with (source or Path(os.devnull)).open("rb") as stdin:
        began = time.perf_counter()
        program = subprocess.Popen(
            argv, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=CHECKOUT
        )
        _, status, usage = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    if program.returncode:
        raise SystemExit(f"{' '.join(argv)} exited with {program.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024, out.stat().st_size


def _compare(what: str, found: dict[str, list[Run]]) -> Iterator[Row]:
    medians = {
        name: tuple(statistics.median(one[field] for one in runs) for field in range(3)) for name, runs in found.items()
    }
    ours = medians["ours"]
    for name, (seconds, peak, size) in medians.items():
        value = f"{seconds:.2f} s, {peak / 1e6:.0f} MB of memory, {size / 1e6:.1f} MB"
        ratio = f"{seconds / ours[0]:.2f} x, {peak / ours[1]:.1f} x, {size / ours[2]:.3f} x"
        yield Row(f"{what}, {name}", value, "ours", ratio)


def pack(top: Path, out: Path, name: str, level: int, block_size: int = 128 << 10) -> None:
    """Write a squashfs of a directory; hard links become files of equal content."""
    with out.open("w+b") as file, SquashfsWriter(file, codec=codec(name, level), block_size=block_size) as writer:
        writer.finish(_node(top, writer), mtime=0)


def _node(path: Path, writer: SquashfsWriter) -> Node:
    status = path.lstat()
    kind = {stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink"}.get(stat.S_IFMT(status.st_mode), "file")
    node = Node(kind, status.st_mode & 0o7777, uid=status.st_uid, gid=status.st_gid, mtime=int(status.st_mtime))
    if kind == "file":
        node.data = writer.add_file(status.st_size, _chunks(path))
    elif kind == "symlink":
        node.target = os.fsencode(path.readlink())
    else:
        node.children.update({os.fsencode(one.name): _node(one, writer) for one in sorted(path.iterdir())})
    return node


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            yield chunk


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
