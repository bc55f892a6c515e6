"""`hpcmod fetch` killed at any time: existing files stay intact, and the next run completes and cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpcmod.images.sif.reader import read_sif
from tests.integration.conftest import sha256_of
from tests.oci_corpus import f, tar_bytes
from tests.registry import Registry
from tests.stack import Stack

pytestmark = pytest.mark.stack

POINTS = 3
LAYERS, SIZE = 4, 8 << 20


@pytest.fixture(scope="module")
def reference(registry: Registry) -> str:
    layers = [tar_bytes([f(f"data/{number}", os.urandom(SIZE))]) for number in range(LAYERS)]
    digest = registry.push_image("kill/big", layers)["digest"]
    return f"docker://{registry.host}/kill/big@{digest}"


def start(stack: Stack, top: Path, reference: str, **more: str) -> subprocess.Popen[bytes]:
    argv = [str(stack.python.parent / "hpcmod"), "fetch", reference, "-o", str(top / "x.sif")]
    env = {**stack.environment(top), "HPCMOD_CACHE": str(top / "cache"), **more}
    return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def whole(stack: Stack, reference: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """The checksum of the SIF, and how long a fetch takes, in seconds."""
    top = tmp_path_factory.mktemp("whole")
    began = time.monotonic()
    process = start(stack, top, reference)
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()
    return sha256_of(top / "x.sif"), time.monotonic() - began


@pytest.mark.parametrize("point", range(POINTS))
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_terminated_fetch_is_completed_by_the_next(
    *, stack: Stack, reference: str, whole: tuple[str, float], tmp_path: Path, point: int, how: signal.Signals
) -> None:
    process = start(stack, tmp_path, reference)
    time.sleep(whole[1] * (point + 1) / (POINTS + 1))
    process.send_signal(how)
    process.communicate()
    if (tmp_path / "x.sif").exists():
        assert sha256_of(tmp_path / "x.sif") == whole[0]
    if how == signal.SIGINT:
        assert process.returncode in (0, 1, -signal.SIGINT)
    again = start(stack, tmp_path, reference)
    out, said = again.communicate()
    assert again.returncode == 0, said.decode()
    assert out.decode() == f"{tmp_path}/x.sif\n"
    assert sha256_of(tmp_path / "x.sif") == whole[0]
    assert read_sif(tmp_path / "x.sif").architecture == "amd64"
    assert [path.name for path in tmp_path.iterdir() if ".sif." in path.name] == ["x.sif.provenance.json"]
    assert list((tmp_path / "cache" / "partial").iterdir()) == []
