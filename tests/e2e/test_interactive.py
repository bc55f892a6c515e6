"""Jupyter kernels and servers that run in a container, driven by a real Jupyter client and a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.e2e.conftest import Jobs, installed, must
from tests.stack import Cluster, Done, Stack, run

pytestmark = pytest.mark.stack

EASYCONFIG = """
easyblock = 'ContainerModule'
name = 'Lab'
version = '1.0'
homepage = 'https://jupyter.org/'
description = 'JupyterLab for tests'
toolchain = SYSTEM
sources = ['{image}']
checksums = [None]
moduleclass = 'ai'
"""


@pytest.fixture(scope="module")
def lab_installed(stack: Stack, machine: Cluster, jupyter_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    top = tmp_path_factory.mktemp("lab")
    easyconfig = top / "Lab-1.0.eb"
    easyconfig.write_text(EASYCONFIG.format(image=jupyter_sif.name))
    return installed(stack, top, machine, easyconfig, jupyter_sif)


@pytest.fixture
def lab(lab_installed: Jobs, tmp_path: Path) -> Jobs:
    (tmp_path / "caches").mkdir()
    return replace(lab_installed, directory=tmp_path)


def environ(lab: Jobs) -> dict[str, str]:
    """What a user's shell on this machine has: a home and the user's modules, no module loaded."""
    more = {"MODULEPATH": str(lab.modules), "HPCMOD_SITE": str(lab.site), "APPTAINER_QUIET": "1"}
    return lab.machine.stack.environment(lab.directory, **more)


def hpcmod(lab: Jobs, *words: str) -> Done:
    return run([str(lab.machine.stack.python.parent / "hpcmod"), *words], environ(lab), lab.directory)


@contextmanager
def started(lab: Jobs, name: str) -> Iterator[tuple[BlockingKernelClient, KernelManager]]:
    """Start a kernel as Jupyter does, in the environment of a user who has loaded nothing."""
    specs = KernelSpecManager(kernel_dirs=[str(lab.directory / ".local/share/jupyter/kernels")])
    manager = KernelManager(kernel_name=name, kernel_spec_manager=specs)
    manager.connection_file = str(lab.directory / "connection.json")
    env = {name: value for name, value in environ(lab).items() if not name.startswith(("HPCMOD", "MODULE"))}
    manager.start_kernel(env=env, cwd=str(lab.directory))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield client, manager
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def value_of(client: BlockingKernelClient, code: str) -> str:
    """Run code in a kernel and return what it prints."""
    printed: list[str] = []

    def take(message: dict[str, dict[str, str]]) -> None:
        printed.append(message["content"].get("text", ""))

    reply = client.execute_interactive(code, timeout=60, output_hook=take)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(printed).strip()


def test_a_kernel_runs_in_the_container_with_the_users_packages_and_without_hpcmod(lab: Jobs) -> None:
    added = next(lab.modules.parents[1].glob("software/Lab/1.0/user-software/venv/lab/lib/python3*/site-packages"))
    (added / "mine.py").write_text("answer = 42\n")
    shown = must(hpcmod(lab, "kernel", "Lab", "--dry-run")).stdout
    place = must(hpcmod(lab, "kernel", "Lab", "--display-name", "Lab (mine)")).stdout.strip()
    spec = json.loads((Path(place) / "kernel.json").read_text())
    assert {**spec, "display_name": "Lab/1.0"} == json.loads(shown)
    with started(lab, "lab-1.0") as (client, manager):
        assert value_of(client, "print(1 + 1)") == "2"
        assert value_of(client, "import mine; print(mine.answer)") == "42"
        assert value_of(client, "import os; print(os.environ['APPTAINER_CONTAINER'])").endswith(".sif")
        assert value_of(client, "import sys; print(sys.base_prefix)").startswith("/opt/miniconda3/envs/pytorch")
        client.execute("import time; print('sleeping', flush=True); time.sleep(60)")
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=60))["content"].get("status") != "error":
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert value_of(client, "import wave; print(wave.__name__)") == "wave"  # the image is still mounted
    listed = json.loads(must(hpcmod(lab, "kernel", "--list", "--json")).stdout)["kernels"]
    assert [(one["name"], one["display_name"], one["ready"]) for one in listed] == [("lab-1.0", "Lab (mine)", True)]
    must(hpcmod(lab, "kernel", "Lab", "--remove"))
    assert not list((lab.directory / ".local/share/jupyter/kernels").iterdir())
