"""Host network libraries instead of the image's, with two real releases of libfabric: which one is loaded where."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from hpcmod.compat.install_netstack import plan_capture
from hpcmod.machine.values.bind import ON_HOST
from hpcmod.modules.values.swap import make_library_path
from tests.fabric import closure_of, make_fabric_image, missing_fabric
from tests.host_libraries import written
from tests.integration.conftest import TOY, Loader, away, installed, write_easyconfig, write_site
from tests.stack import Done, EasyBuild, ModuleTool, Stack

pytestmark = pytest.mark.stack

HOST, IMAGE = "1.17.0", "2.1.0"
"""The libfabric version in `fi_info --version` with the host's library, and with the image's."""

SITE = """
[netstack]
directory = ["{top}/netstack/*"]
"""

BARE_SITE = """
[binds]
required = []
optional = ["{top}/bare-usr:/host/usr"]

[netstack]
directory = ["{top}/bare/*/lib64"]
search_last = ["/host/usr/lib64"]
"""
"""Without a capture: one directory has only libfabric and its dependencies are elsewhere, as on a Cray EX."""


@pytest.fixture(scope="module")
def fabric(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> EasyBuild:
    """Modules: Fabric uses captured host libraries, Own uses none, Bare uses them in their original directories."""
    if missing_fabric(stack):
        pytest.skip(missing_fabric(stack))
    top = tmp_path_factory.mktemp("swap")
    eb = EasyBuild(stack, top, top / "central")
    eb.central.mkdir()
    work = top / "image"
    work.mkdir()
    make_fabric_image(stack, work).rename(eb.central / "fabric.sif")
    shutil.rmtree(work)
    written(plan_capture(["libfabric.so.1"], {}), top / "netstack")
    plant_bare(top)
    common = {"sources": ["fabric.sif"], "wrapped_commands": ["fi_info"]}
    captured = write_site(top, SITE.format(top=top))
    own = write_easyconfig(top, name="Own", netstack="off", **common)
    installed(eb, write_easyconfig(top, name="Fabric", **common), own, HPCMOD_SITE=str(captured))
    bare = write_site(top, BARE_SITE.format(top=top))
    installed(eb, write_easyconfig(top, name="Bare", **common), HPCMOD_SITE=str(bare))
    return eb


def plant_bare(top: Path) -> None:
    """Copy the machine's libfabric to a directory named after its release, and its dependencies to another one."""
    release, others = top / f"bare/{HOST}/lib64", top / "bare-usr/lib64"
    release.mkdir(parents=True)
    others.mkdir(parents=True)
    for one in closure_of("/usr/lib/x86_64-linux-gnu/libfabric.so.1").own:
        shutil.copy(one.real, (release if "libfabric" in one.path else others) / Path(one.path).name)


@pytest.fixture
def fabric_loader(stack: Stack, fabric: EasyBuild, tmp_path: Path) -> Loader:
    return Loader(ModuleTool(stack, tmp_path, "lmod"), dataclasses.replace(fabric))


def loaded(fabric_loader: Loader, snippet: str, module: str = "Fabric", **env: str) -> Done:
    """Run a snippet with the module loaded; $runtime is the runtime itself, not the module's own `singularity`."""
    runtime = fabric_loader.tool.stack.apptainer
    return fabric_loader(f"runtime={runtime}; module load {module} || exit\n{snippet}", **env)


def release_of(done: Done) -> str:
    """Return the version of libfabric that fi_info found."""
    found = re.search(r"^libfabric: (\S+)$", done.stdout, re.MULTILINE)
    return found[1] if found else f"none: {done.stdout}{done.stderr}"


WAYS = {
    "exec": "$runtime exec $SIF fi_info --version",
    "run": "$runtime run $SIF fi_info --version",
    "shell": "echo 'fi_info --version' | $runtime shell $SIF",
    "exec of the module's singularity": "singularity exec $SIF fi_info --version",
    "run of the module's singularity": "singularity run $SIF fi_info --version",
    "shell of the module's apptainer": "echo 'fi_info --version' | apptainer shell $SIF",
    "wrapper": "fi_info --version",
    "start-shell": "start-shell -c 'fi_info --version'",
    "run-in-env": "$runtime exec $SIF run-in-env fi_info --version",
    "exec with a clean environment": "$runtime exec --cleanenv $SIF fi_info --version",
    "exec that evaluates nothing": "$runtime exec --no-eval $SIF fi_info --version",
}


def test_without_the_module_the_image_loads_its_own(fabric_loader: Loader, fabric: EasyBuild) -> None:
    image = fabric.central / "fabric.sif"
    assert release_of(fabric_loader(f"{fabric_loader.tool.stack.apptainer} exec {image} fi_info --version")) == IMAGE


ONE_OF_EACH_KIND = ("exec", "shell", "wrapper", "start-shell", "exec with a clean environment")
"""Ways that start a container differently: with the runtime's commands and with the module's scripts."""


@pytest.mark.parametrize(("module", "ways"), [("Fabric", tuple(WAYS)), ("Bare", ONE_OF_EACH_KIND)])
def test_with_the_module_the_hosts_is_loaded(fabric_loader: Loader, module: str, ways: tuple[str, ...]) -> None:
    """Every way with captured libraries; without a capture, one of each kind."""
    snippet = "\n".join(f"echo == | tee /dev/stderr; {WAYS[way]}" for way in ways)
    done = loaded(fabric_loader, snippet, module, APPTAINERENV_LD_DEBUG="libs")
    for way, said, traced in zip(ways, done.stdout.split("==\n")[1:], done.stderr.split("==\n")[1:], strict=True):
        assert re.findall(r"^libfabric: (\S+)$", said, re.MULTILINE) == [HOST], (way, said)
        assert set(re.findall(r"calling init: (\S*libfabric\S*)", traced)) == {"/host/lib/libfabric.so.1"}, way


def test_a_module_whose_easyconfig_says_off_keeps_its_own(fabric_loader: Loader) -> None:
    assert release_of(loaded(fabric_loader, WAYS["exec"], "Own")) == IMAGE
    assert release_of(loaded(fabric_loader, WAYS["wrapper"], "Own")) == IMAGE


@pytest.mark.parametrize("verb", ["exec", "run"])
def test_the_loader_itself_says_that_all_of_it_is_the_hosts(fabric_loader: Loader, verb: str) -> None:
    said = loaded(fabric_loader, f"$runtime {verb} $SIF env LD_DEBUG=libs fi_info --version").stderr
    opened = set(re.findall(r"calling init: (\S+)", said))
    libraries = {path for path in opened if not re.search(r"/(ld-linux|libc\.so)", path)}
    assert {Path(path).name for path in libraries} > {"libfabric.so.1", "libibverbs.so.1", "libpsm_infinipath.so.1"}
    assert {str(Path(path).parent) for path in libraries} == {"/host/lib"}
    assert not any(path.startswith("/host") for path in opened - libraries), "glibc is the image's"


def test_a_running_process_has_the_hosts_mapped(fabric_loader: Loader) -> None:
    # fi_info exits immediately, so another program loads it
    done = loaded(fabric_loader, "$runtime exec --env LD_PRELOAD=libfabric.so.1 $SIF cat /proc/self/maps")
    mapped = {line.split()[-1] for line in done.stdout.splitlines() if "libfabric" in line}
    assert mapped == {"/host/lib/libfabric.so.1.20.0"}


def test_the_images_own_directories_follow(fabric_loader: Loader) -> None:
    done = loaded(fabric_loader, "$runtime exec $SIF env")
    assert "LD_LIBRARY_PATH=/host/lib:/opt/fabric/lib:/.singularity.d/libs" in done.stdout


@pytest.mark.parametrize("name", ["APPTAINERENV_LD_LIBRARY_PATH", "SINGULARITYENV_LD_LIBRARY_PATH"])
def test_a_value_of_the_users_wins(fabric_loader: Loader, name: str) -> None:
    assert release_of(loaded(fabric_loader, WAYS["exec"], **{name: "/opt/fabric/lib"})) == IMAGE
    assert release_of(loaded(fabric_loader, WAYS["wrapper"], **{name: "/opt/fabric/lib"})) == IMAGE


@pytest.mark.parametrize("runtime", ["$runtime", "singularity", "apptainer"])
def test_a_value_for_one_run_wins_with_the_module_loaded(fabric_loader: Loader, runtime: str) -> None:
    one_run = f"APPTAINERENV_LD_LIBRARY_PATH=/opt/fabric/lib {runtime} exec $SIF fi_info --version"
    assert release_of(loaded(fabric_loader, one_run)) == IMAGE
    assert release_of(loaded(fabric_loader, "APPTAINERENV_LD_LIBRARY_PATH=/opt/fabric/lib fi_info --version")) == IMAGE


def test_a_directory_that_the_user_binds_there_wins(fabric_loader: Loader, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    bind = f"{tmp_path}/mine:/host/lib"
    assert release_of(loaded(fabric_loader, f"$runtime exec --bind {bind} $SIF fi_info --version")) == IMAGE
    assert release_of(loaded(fabric_loader, WAYS["wrapper"], SINGULARITY_BINDPATH=bind)) == IMAGE


def test_on_a_node_without_the_directory_the_image_keeps_its_own(fabric_loader: Loader, fabric: EasyBuild) -> None:
    with away(fabric.top / "netstack"):
        assert release_of(loaded(fabric_loader, WAYS["exec"])) == IMAGE
        assert release_of(loaded(fabric_loader, WAYS["wrapper"])) == IMAGE


def test_the_newest_capture_is_taken_also_by_wrappers_of_a_module_that_was_loaded_before(
    fabric_loader: Loader, fabric: EasyBuild
) -> None:
    newer, on_host = fabric.top / "netstack/2", fabric.top / "netstack/1" / ON_HOST
    ask = "fi_info --version"
    done = loaded(fabric_loader, f"{ask}; mkdir {newer}; {ask}; cp -P {on_host} {newer}; {ask}; rm -r {newer}")
    # a capture of another node is ignored; one of this node is used, but has no libraries, so nothing is swapped
    assert re.findall(r"^libfabric: (\S+)", done.stdout, re.MULTILINE) == [HOST, HOST, IMAGE]


@pytest.mark.parametrize("module", ["Fabric", "Bare"])
def test_an_entry_script_that_looks_for_the_hosts_libraries_itself_finds_them(
    fabric_loader: Loader, module: str, fabric: EasyBuild
) -> None:
    directory = f"/tmp/entry-{module}"
    if module == "Bare":
        (fabric.top / f"bare/{HOST}/lib64/libfabric.so").unlink(missing_ok=True)
        (fabric.top / f"bare/{HOST}/lib64/libfabric.so").symlink_to("libfabric.so.1")
    seen = f"$runtime run --contain --env HPE_ENTRY={directory} $SIF env LD_DEBUG=libs fi_info --version"
    done = loaded(fabric_loader, seen, module)
    assert release_of(done) == HOST
    assert f"calling init: {directory}/libfabric.so.1" in done.stderr


def test_an_image_that_is_built_with_the_module_loaded_gets_none_of_it(fabric_loader: Loader, tmp_path: Path) -> None:
    # a fake runtime, as the test only checks its environment
    fake = tmp_path / "bin/singularity"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nenv\n")
    fake.chmod(0o755)
    called = loaded(
        fabric_loader, f"PATH=${{PATH%%:*}}:{fake.parent}:$PATH; singularity exec x; echo; singularity build x"
    )
    assert called.returncode == 0, called.stderr
    exec_with, build_with = called.stdout.split("\n\n")
    for name in ("APPTAINERENV_LD_LIBRARY_PATH", "SINGULARITYENV_LD_LIBRARY_PATH"):
        assert f"\n{name}=/host/lib:" in exec_with
        assert f"\n{name}=" not in build_with


def test_every_module_tool_gives_the_value_as_it_is(loader: Loader) -> None:
    found = loader.variables(f"module load {TOY}")
    assert found["APPTAINERENV_LD_LIBRARY_PATH"] == make_library_path(())
    assert found["SINGULARITYENV_LD_LIBRARY_PATH"] == make_library_path(())
    seen = loader(f"module load {TOY} 2>/dev/null; python -c 'import os; print(os.environ[\"LD_LIBRARY_PATH\"])'")
    assert seen.stdout.startswith("/host/lib:/.singularity.d/libs")
