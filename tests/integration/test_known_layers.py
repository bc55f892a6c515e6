"""A second image with a known base from a real registry: only the changed layer is fetched; the SIF is identical."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.integration.conftest import sha256_of
from tests.oci_corpus import f, tar_bytes, write_layout
from tests.registry import Registry
from tests.stack import Stack, run

pytestmark = pytest.mark.stack

NOISE = random.Random(3)  # noqa: S311 - noise for a test, the same each time
BASE = [tar_bytes([f(f"base{n}", NOISE.randbytes(400_000)), f(f"short{n}", b"x" * 900)]) for n in range(5)]


def test_a_second_image_of_a_base_fetches_the_changed_layer_alone(
    stack: Stack, registry: Registry, tmp_path: Path
) -> None:
    for tag in ("1", "2"):
        layout = write_layout(tmp_path / tag, [*BASE, tar_bytes([f("app", tag.encode() * 50_000)])])
        registry.push_layout(layout, "group/base", tag)
    hpcmod = str(stack.python.parent / "hpcmod")

    def fetch(tag: str, out: str, cache: str, *words: str) -> str:
        argv = [hpcmod, "fetch", f"docker://{registry.host}/group/base:{tag}", "-o", str(tmp_path / out), *words]
        environment = stack.environment(tmp_path, HPCMOD_SITE="generic", HPCMOD_CACHE=str(tmp_path / cache))
        done = run(argv, environment, tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout if "--json" in words else done.stderr

    fetch("1", "one.sif", "cache-1")
    planned = fetch("2", "two.sif", "cache-2", "--dry-run", "--json")
    assert 0 < json.loads(planned)["bytes_to_fetch"] < 10_000
    said = fetch("2", "two.sif", "cache-2")
    assert f"5 of 6 layers copied from {tmp_path / 'one.sif'}" in said
    large = [path for path in (tmp_path / "cache-2").rglob("*") if path.is_file() and path.stat().st_size > 100_000]
    assert large == []
    fetch("2", "whole.sif", "cache-3", "--no-cache")
    assert sha256_of(tmp_path / "two.sif") == sha256_of(tmp_path / "whole.sif")
