"""Fixtures for all tests: the real tools from dev/stack. In CI and in dev/test a skip is a failure.

stack        paths of all tools (tests/stack.py)
tiny_sif     a real image without torch: bash, Python, a conda layout
torch_sif    the image with PyTorch for CPUs
jupyter_sif  the small image with JupyterLab
base_image   a small Debian as an OCI layout, to build images on
eb           runs the real EasyBuild with its own prefix
module_env   runs bash snippets with a real `module`; runs the test twice, with Lmod and with Environment Modules 5
lmod         the same, with Lmod only
registry     a real container registry on loopback, one for the whole session
cluster      a Slurm cluster of two virtual nodes, one for the whole session
golden       compares generated text with a file: `golden(path, text)`; `./dev/test --golden` writes the files
users        other users on this machine, and directories that they share with the user who runs the tests
"""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.compiled_lmod import with_compiled_lmod
from tests.golden import check_golden, renewing
from tests.json_schemas import check_all_outputs
from tests.preloaded import write_back_later
from tests.registry import Registry, run_registry, why_no_registry
from tests.stack import (
    Cluster,
    EasyBuild,
    ModuleTool,
    Stack,
    find_stack,
    read_stack,
    start_cluster,
    stop_cluster,
)
from tests.users import Users, several_users

LOADED = (
    *("EASYBUILD_", "EB_", "LMOD_", "MODULE", "LOADEDMODULES", "_LM", "__LMOD", "_ModuleTable", "BASH_ENV"),
    *("BASH_FUNC_m", "SINGULARITY", "APPTAINER", "SLURM_", "SBATCH_", "SIF", "CONTAINERROOT", "RUNSCRIPTS"),
    *("HPCMOD_BUILD_DIR", "HPCMOD_CACHE", "HPCMOD_CATALOGUE", "HPCMOD_LOCK", "HPCMOD_NOTICED", "HPCMOD_PACKAGES"),
    *("HPCMOD_SITE", "_HPCMOD", "JUPYTER_DATA_DIR"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
)
for _name in [name for name in os.environ if name.startswith(LOADED)]:
    # modules loaded in the developer's shell must not affect the tests
    del os.environ[_name]

# any example can be slow on a busy machine; that is not a defect of the code
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

write_back_later()

TOOLS = ("python", "apptainer", "lmod_init", "modulecmd", "tiny_sif")


def why_no_stack(stack: Stack | None) -> str:
    """Return why tests that need real tools cannot run here; empty if they can."""
    if os.geteuid() == 0:
        return "EasyBuild refuses root: run dev/test, which switches to an ordinary user"
    if stack is None:
        return f"no test stack in {find_stack()}: run dev/stack"
    missing = stack.missing(*TOOLS)
    return f"the test stack lacks {', '.join(missing)}: run dev/stack" if missing else ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked `stack` if the tools are missing."""
    if item.get_closest_marker("stack") is None:
        return
    reason = why_no_stack(read_stack(find_stack()))
    if reason:
        # pytest would name this file; dev/test says which golden file is not renewed
        pytest.skip(f"{item.location[0]}: {reason}" if renewing() else reason)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that use golden files, for `./dev/test --golden`, and those of Hypothesis as slow."""
    if "golden" in getattr(item, "fixturenames", ()):
        item.add_marker("golden")
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker("slow")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Choose which process runs which file; see tests/scheduling.py."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import FilesByKind

    return FilesByKind(config, log)


@pytest.fixture(scope="session", autouse=True)
def json_outputs() -> Iterator[None]:
    """Validate the output of every command run with --json against its schema."""
    with pytest.MonkeyPatch.context() as patch:
        check_all_outputs(patch)
        yield


gc.disable()  # during collection: nearly everything allocated then lives until the end


def pytest_collection_finish() -> None:
    """Exempt everything that lives until the end, such as 10,000 collected tests, from garbage collection."""
    gc.freeze()
    gc.enable()


NUMBERS = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new directory; pytest's own fixture lists the directories of all tests to find the next free number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(NUMBERS)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def golden() -> Callable[[Path, str], None]:
    """Compare a text with a golden file: `golden(path, text)`."""
    return check_golden


def nothing_may_skip() -> bool:
    return bool(os.environ.get("CI") or os.environ.get("HPCMOD_NO_SKIP"))


def fail_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure that gives its reason."""
    if not nothing_may_skip() or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"skipped where nothing may skip: {reason}"


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_skipped(report)
    return report


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that starts the tests in the background makes them, and every program they start, ignore Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # likewise for nohup


@pytest.fixture(scope="session")
def stack() -> Stack:
    """The real tools; skips with the reason if they are missing."""
    found = read_stack(find_stack())
    reason = why_no_stack(found)
    if found is None or reason:
        pytest.skip(reason)
    return with_compiled_lmod(found)


@pytest.fixture(scope="session")
def tiny_sif(stack: Stack) -> Path:
    """A 29 MB image in the layout of the AI containers of large sites: real Python, no torch."""
    return stack.tiny_sif


@pytest.fixture(scope="session")
def torch_sif(stack: Stack) -> Path:
    """The image with PyTorch for CPUs (gloo)."""
    if stack.missing("torch_sif"):
        pytest.skip("no image with torch: run dev/stack torch")
    return stack.torch_sif


@pytest.fixture(scope="session")
def jupyter_sif(stack: Stack) -> Path:
    """The small image with JupyterLab and ipykernel."""
    if stack.missing("jupyter_sif"):
        pytest.skip("no image with JupyterLab: run dev/stack jupyter")
    return stack.jupyter_sif


@pytest.fixture(scope="session")
def base_image(stack: Stack) -> Path:
    """A small Debian as an OCI layout, to build images on."""
    if stack.missing("base_image", "wheels"):
        pytest.skip("nothing to build images from: run dev/stack build")
    return stack.base_image


@pytest.fixture
def eb(stack: Stack, tmp_path: Path) -> EasyBuild:
    """The real `eb`: installs under tmp_path/eb, finds images in tmp_path/central, writes Lua for Lmod.

    For Tcl or Environment Modules: `dataclasses.replace(eb, modules_tool="envmodules", syntax="Tcl")`.
    """
    central = tmp_path / "central"
    central.mkdir()
    return EasyBuild(stack, tmp_path, central)


@pytest.fixture(params=["lmod", "envmodules"])
def module_env(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path) -> ModuleTool:
    """Each real module tool in turn: `module_env("module load X; echo $SIF", modulepath).stdout`."""
    return ModuleTool(stack, tmp_path, request.param)


@pytest.fixture
def lmod(stack: Stack, tmp_path: Path) -> ModuleTool:
    """Lmod alone, for Lua modulefiles: `lmod("module load X; echo $SIF", eb.modules).stdout`."""
    return ModuleTool(stack, tmp_path, "lmod")


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A real registry without a login: `registry.push_layout(path, "x", "1")`, then docker://{registry.host}/x:1."""
    if why_no_registry():
        pytest.skip(why_no_registry())
    with run_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def cluster(stack: Stack) -> Iterator[Cluster]:
    """Two virtual nodes with Slurm: `cluster("srun", "-N2", "hostname").stdout`."""
    started = start_cluster(stack, f"test-{os.getpid()}", "-n", "2", "-c", "4")
    yield started
    stop_cluster(started)


@pytest.fixture
def users() -> Iterator[Users]:
    with several_users() as found:
        yield found
