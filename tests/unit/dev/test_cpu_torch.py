"""The stack installs the CPU build of torch, never the CUDA build that PyPI calls torch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.recipe_stubs import write_wheel
from tests.stack import CHECKOUT, Done, run

pytestmark = pytest.mark.slow


def download(links: Path, to: Path) -> Done:
    """Ask the real pip for torch 9+cpu, with one directory as its only source; --no-index keeps it off the network.

    The machine's own settings of pip may limit the versions of torch, so none of them is read.
    """
    pip = f"{sys.executable} -m pip download --no-index --no-deps --find-links {links} --dest {to} torch==9+cpu"
    libraries = " ".join(f"source {CHECKOUT}/dev/lib/{name}.sh;" for name in ("talk", "paths", "torch"))
    without_settings = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    return run(["bash", "-c", f"set -euo pipefail; {libraries} with_cpu_torch {pip}"], without_settings)


def test_the_build_for_cpus_is_taken_where_pip_finds_one(tmp_path: Path) -> None:
    write_wheel(tmp_path, "torch", "9+cpu")
    done = download(tmp_path, tmp_path / "to")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["torch-9+cpu-py3-none-any.whl"]


def test_another_build_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write_wheel(tmp_path, "torch", "9")
    done = download(tmp_path, tmp_path / "to")
    assert done.returncode == 1
    assert "pip's indexes have no CPU build of torch" in done.stderr
    assert "cure: PIP_EXTRA_INDEX_URL=https://" in done.stderr
    assert not (tmp_path / "to").exists() or list((tmp_path / "to").iterdir()) == []
