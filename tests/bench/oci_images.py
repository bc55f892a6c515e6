"""Makes the images for the conversion benchmarks, once, in a directory that is kept: HPCMOD_BENCH_DIR.

real     about 2.7 GB, 57,000 files, six layers: Debian, PyTorch for CPUs, Python packages, deletions, an app, settings
one      a single file of 2 GB that compresses to about half
tiny     200,000 files of up to 1,000 bytes
layers   forty layers of 200 files; each layer replaces a few files of those below
huge     6 GB in two layers, to measure memory
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import zstandard

from tests.bench.measure import must
from tests.oci_corpus import DIRECTORY, Member, gone, header, padded, put

MEGABYTE = 1 << 20
Tar = Iterable[bytes]

DEBIAN = ("debootstrap", "--variant=minbase", "--include=python3,build-essential,git", "bookworm")
TORCH = ("torch==2.13.0+cpu",)
PACKAGES = (
    *("numpy", "scipy", "pandas", "scikit-learn", "matplotlib", "pyarrow", "transformers"),
    *("numba", "llvmlite", "sympy", "networkx", "pillow", "tokenizers"),
)


def make(name: str, place: Path, compression: str) -> Path:
    """Make the layout of an image unless it exists; return its directory."""
    layout = place / f"{name}-{compression}"
    if not (layout / "index.json").exists():
        _write_layout(layout, IMAGES[name](place), compression)
    return layout


def _write_layout(layout: Path, layers: Iterable[Tar], compression: str) -> None:
    (layout / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    stored, diff_ids = zip(*[_store(layout, tar, compression) for tar in layers])
    image = {
        "created": "2024-05-06T07:08:09Z",
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin:/bin"], "Cmd": ["/bin/sh"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    config = put(layout, json.dumps(image).encode(), "application/vnd.oci.image.config.v1+json")
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": stored}
    entry = put(layout, json.dumps(manifest).encode(), kind)
    entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))


def _store(layout: Path, tar: Tar, compression: str) -> tuple[dict[str, object], str]:
    """Store a layer; return its descriptor and the digest of the tar."""
    packer = zlib.compressobj(6, wbits=31) if compression == "gzip" else zstandard.ZstdCompressor(3).compressobj()
    plain, packed, size = hashlib.sha256(), hashlib.sha256(), 0
    partial = layout / "blobs" / "partial"
    with partial.open("wb") as file:
        for piece in itertools.chain(tar, [b""]):
            plain.update(piece)
            data = packer.compress(piece) if piece else packer.flush()
            packed.update(data)
            size += file.write(data)
    partial.rename(layout / "blobs" / "sha256" / packed.hexdigest())
    kind = f"application/vnd.oci.image.layer.v1.tar+{compression}"
    described = {"mediaType": kind, "digest": f"sha256:{packed.hexdigest()}", "size": size}
    return described, f"sha256:{plain.hexdigest()}"


def _real(place: Path) -> Iterator[Tar]:
    made = {
        "debian": lambda to: must([*DEBIAN, to]),
        "torch": lambda to: _pip(to / "opt/venv", TORCH),
        "packages": lambda to: _pip(to / "opt/ml", PACKAGES),
    }
    for name, fill in made.items():
        if not (place / name).exists():
            partial = place / f"{name}.partial"
            fill(partial)
            partial.rename(place / name)
        yield _tar(place / name)
    names = sorted(str(path.relative_to(place / "packages")) for path in (place / "packages").rglob("tests"))
    yield _members([*map(gone, names), Member(b"opt/deleted", data=b"tests\n")])
    yield _members(Member(b"opt/app/m%d.py" % n, data=b"print(%d)\n" % n) for n in range(500))
    yield _members([Member(b"etc/app.conf", data=b"a = 1\n")])


def _pip(to: Path, packages: tuple[str, ...]) -> None:
    must(["python3", "-m", "pip", "install", "--quiet", "--no-deps", "--target", to, *packages])


def _tar(directory: Path) -> Tar:
    argv = ["tar", "-c", "--sort=name", "--numeric-owner", "--exclude=./dev/*", "--exclude=*.deb", "-C", directory, "."]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as running:
        if running.stdout is not None:
            yield from iter(lambda: running.stdout.read(MEGABYTE), b"")  # type: ignore[union-attr]


def _members(members: Iterable[Member]) -> Tar:
    for member in members:
        yield header(member, len(member.data)) + padded(member.data)
    yield bytes(1024)


def _file(name: bytes, megabytes: int, seed: int) -> Tar:
    """Return a member whose content compresses to about half, like model weights and libraries."""
    chance = random.Random(seed)  # noqa: S311 - test data
    yield header(Member(name), megabytes * MEGABYTE)
    words = [chance.randbytes(8) for _ in range(256)]
    for _ in range(megabytes):
        yield chance.randbytes(MEGABYTE // 2) + b"".join(chance.choices(words, k=MEGABYTE // 16))


def _one(_: Path) -> Iterator[Tar]:
    yield itertools.chain(_file(b"model.bin", 2000, 1), [bytes(1024)])


def _tiny(_: Path) -> Iterator[Tar]:
    chance = random.Random(2)  # noqa: S311 - test data
    text = bytes(chance.choices(b"abcdefgh \n", k=100_000))
    members = (
        Member(b"d%d/f%d" % (n // 1000, n), data=text[(start := chance.randrange(99_000)) : start + n % 1000])
        for n in range(200_000)
    )
    yield _members(itertools.chain((Member(b"d%d/" % n, DIRECTORY, mode=0o755) for n in range(200)), members))


def _layers(_: Path) -> Iterator[Tar]:
    chance = random.Random(3)  # noqa: S311 - test data
    for layer in range(40):
        names = [b"l%d/f%d" % (layer, n) for n in range(200)] + [b"l%d/f%d" % (n, layer) for n in range(layer)]
        yield _members([Member(name, data=chance.randbytes(2000) * 10) for name in names])


def _huge(_: Path) -> Iterator[Tar]:
    for layer in range(2):
        files = (_file(b"l%d/f%d.bin" % (layer, n), 300, 10 * layer + n) for n in range(10))
        yield itertools.chain(*files, [bytes(1024)])


IMAGES: dict[str, Callable[[Path], Iterator[Tar]]] = {
    "real": _real,
    "one": _one,
    "tiny": _tiny,
    "layers": _layers,
    "huge": _huge,
}
