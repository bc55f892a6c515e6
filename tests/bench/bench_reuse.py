"""A second image with the same base and a different last layer: reusing the SIF of the first, compared with a full
conversion.

HPCMOD_BENCH_DIR  directory of the image (10 GB), which is kept; by default it is made again for each run
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import oci_images
from tests.bench.measure import Row, must
from tests.oci_corpus import f, put, tar_bytes
from tests.registry import run_registry
from tests.stack import Stack

TITLE = "A second image with the same base"
CONVERT = "from hpcmod.cli.main import main; main()"


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Convert the second image with and without the SIF of the first, from a layout and from a registry, in
    alternation.
    """
    del stack, megabytes
    kept = Path(os.environ.get("HPCMOD_BENCH_DIR") or work / "images")
    kept.mkdir(parents=True, exist_ok=True)
    first = oci_images.make("real", kept, "gzip")
    second = changed(first, work / "second")
    environ = {**os.environ, "HOME": str(work / "home"), "HPCMOD_SITE": "generic"}
    (work / "home").mkdir()
    convert(f"oci:{first}", work / "first.sif", environ)
    with run_registry(work / "registry") as registry:
        registry.push_layout(second, "second", "1")
        references = {"from a layout": f"oci:{second}", "from a registry": f"docker://{registry.host}/second:1"}
        for name, reference in references.items():
            yield compare(name, reference, work, environ, rounds)
        convert(references["from a registry"], work / "once.sif", {**environ, "HPCMOD_CACHE": str(work / "once")})
    fetched = sum(path.stat().st_size for path in (work / "once").rglob("*") if path.is_file())
    whole = sum(layer["size"] for layer in manifest_of(second)["layers"])
    yield Row("fetched from the registry", f"{fetched} bytes", f"{whole} bytes of layers", "")


def compare(name: str, reference: str, work: Path, environ: dict[str, str], rounds: int) -> Row:
    """Measure both in alternation; the SIFs must be identical."""
    taken: dict[str, list[float]] = {"copied": [], "full": []}
    for _ in range(rounds):
        sums = set()
        for way, words in (("copied", []), ("full", ["--no-cache"])):
            out = work / f"{way}.sif"
            shutil.rmtree(work / "cache", ignore_errors=True)
            began = time.perf_counter()
            convert(reference, out, {**environ, "HPCMOD_CACHE": str(work / "cache")}, *words)
            taken[way].append(time.perf_counter() - began)
            sums.add(hashlib.sha256(out.read_bytes()).hexdigest())
            out.unlink()
        if len(sums) != 1:
            raise SystemExit(f"{reference}: the SIFs differ")
    copied, full = (statistics.median(taken[way]) for way in ("copied", "full"))
    return Row(name, f"{copied:.2f} s", f"full conversion {full:.2f} s", f"{copied / full:.2f}", "0.15")


def convert(reference: str, out: Path, environ: dict[str, str], *words: str) -> None:
    must([sys.executable, "-c", CONVERT, "convert", "--allow-http", *words, reference, out], env=environ)


def changed(layout: Path, to: Path) -> Path:
    """Write an image that differs from another in its last layer; the blobs are shared."""
    (to / "blobs/sha256").mkdir(parents=True)
    for blob in (layout / "blobs/sha256").iterdir():
        (to / "blobs/sha256" / blob.name).symlink_to(blob)
    (to / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    index = json.loads((layout / "index.json").read_text())
    manifest = manifest_of(layout)
    config = read_blob(layout, manifest["config"])
    tar = tar_bytes([f("etc/app.conf", "a = 2\n")])
    manifest["layers"][-1] = put(to, tar, "application/vnd.oci.image.layer.v1.tar")
    config["rootfs"]["diff_ids"][-1] = f"sha256:{hashlib.sha256(tar).hexdigest()}"
    manifest["config"] = put(to, json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json")
    entry = put(to, json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    entry["annotations"] = index["manifests"][0]["annotations"]
    (to / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return to


def manifest_of(layout: Path) -> dict[str, Any]:
    return read_blob(layout, json.loads((layout / "index.json").read_text())["manifests"][0])


def read_blob(layout: Path, descriptor: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text())
    return found
