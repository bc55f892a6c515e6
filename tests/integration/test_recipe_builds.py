"""The components of shipped recipes with a real buildah: it reads the Dockerfiles, and every script runs to the end.

The base images of NVIDIA and AMD cannot be pulled where tests run, and a full build takes an hour: see
tests/recipe_stubs.py for the stand-ins. Only `pytorch-cpu` is built for real, including downloads (tests/e2e).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.building.ingredients import SourceStore, gather, plan_recipe, read_used
from hpcmod.building.shipped import shipped_recipes
from hpcmod.building.text.recipe import render_context, render_dockerfile
from hpcmod.building.values.build_plan import BuildPlan, Download
from hpcmod.building.values.building import BuildRequest
from hpcmod.building.values.recipe import parse_recipe
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.resources import module_templates
from hpcmod.core.values.facts import architecture_name
from tests.recipe_stubs import make_sources, make_wheels, needed, write_programs
from tests.registry import Registry
from tests.small_base import make_small_base
from tests.stack import Stack

pytestmark = pytest.mark.stack

HERE = architecture_name(platform.machine())
RECIPES = [parse_recipe(text, name) for name, text in shipped_recipes().items()]
INDEX = {"index": "https://127.0.0.1:1/simple"}
FULL = (
    ("pytorch-ngc-ofi", "ompi", "builtin"),
    ("pytorch-rocm-wheels", "mpich", "swap"),
)
"""Recipes run with stand-ins; together they cover every component that `pytorch-cpu` does not have."""


class Buildah:
    """A real buildah with separate storage for the tests."""

    def __init__(self, root: Path, runroot: str) -> None:
        call = ["buildah", "--root", str(root), "--runroot", runroot, "--storage-driver"]
        quick = subprocess.run([*call, "overlay", "images"], capture_output=True, check=False).returncode == 0
        self._call = [*call, "overlay" if quick else "vfs"]  # overlay does not work on top of overlay

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self._call, *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def build(self, context: Path, base: str, name: str, *more: str) -> str:
        options = ("--isolation=chroot", "--layers=false", "--from", base, "-f", str(context / "Dockerfile"))
        return self("bud", *options, *more, "-t", name, str(context))


@pytest.fixture(scope="module")
def buildah(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    if not shutil.which("buildah"):
        pytest.skip("no buildah: run dev/stack build")
    root = tmp_path_factory.mktemp("buildah")
    runroot = tempfile.mkdtemp(prefix="hm")  # short, as buildah creates sockets in it
    yield Buildah(root, runroot)
    subprocess.run(["buildah", "unshare", "rm", "-rf", str(root), runroot], check=False)


@pytest.fixture(scope="module")
def debian(base_image: Path, buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shell and Python from the Debian image of dev/stack, in place of NVIDIA's and AMD's images."""
    link = tmp_path_factory.mktemp("debian") / "link"
    link.symlink_to(make_small_base(base_image, link.parent, python=True))  # image names must not contain capitals
    return buildah("pull", "-q", f"oci:{link}").split()[-1]


def larder_in(directory: Path) -> SourceStore:
    return SourceStore(lock=directory / "lock", downloads=directory / "cache", offline=True)


def write_context(plan: BuildPlan, context: Path) -> Path:
    files = {**render_context(plan), "Dockerfile": render_dockerfile(plan, templates=module_templates())}
    for name, text in files.items():
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text(text)
    for path, inside in plan.inputs:
        (context / inside).parent.mkdir(parents=True, exist_ok=True)
        if Path(path).is_dir():
            shutil.copytree(path, context / inside)
        else:
            shutil.copy(path, context / inside)
    return context


def assert_described(buildah: Buildah, image: str, plan: BuildPlan) -> None:
    """Check the labels and the environment of an image built from a plan."""
    labels = buildah("inspect", "--type", "image", "--format", "{{.OCIv1.Config.Labels}}", image)
    assert f"org.hpcmod.recipe:{plan.recipe}" in labels
    assert f"org.hpcmod.fingerprint:{plan.fingerprint}" in labels
    environment = buildah("inspect", "--type", "image", "--format", "{{.OCIv1.Config.Env}}", image)
    assert "${" not in environment and "::" not in environment


@pytest.fixture
def full(tmp_path: Path, request: pytest.FixtureRequest) -> BuildPlan:
    """A plan with all extras, and with stand-ins for its sources, wheels and host libraries."""
    name, mpi, ofi = request.param
    recipe = next(one for one in RECIPES if one.name == name)
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    (libraries / "libfabric.so.1").touch()
    asked = BuildRequest(
        "amd64", mpi=mpi, ofi=ofi, extras=recipe.extras, host_libs=str(libraries), settings=needed(recipe)
    )
    own_lock = tmp_path / "lock"
    draft = plan_recipe(name, asked, store=larder_in(tmp_path))
    sources, wheels = make_sources(draft, tmp_path / "sources"), make_wheels(draft, tmp_path / "wheels")
    lines = [stub_line(source, sources) for source in draft.sources]
    lines += [stub_wheel(path) for path in sorted(wheels.glob("*.tar.gz"))]
    own_lock.write_text("".join(lines))
    asked = replace(asked, settings={}, wheels=str(wheels))
    store = SourceStore(lock=own_lock, downloads=tmp_path / "cache", offline_sources=sources, offline=True)
    return gather(name, asked, store=store)


def stub_line(source: Download, sources: Path) -> str:
    """Return a line for a custom lock, which overrides the shipped one, as the stand-in has another checksum."""
    return f"source {source.name} {source.version} {file_sha256(sources / source.file_name)} {source.url}\n"


def stub_wheel(path: Path) -> str:
    name, _, version = path.name.removesuffix(".tar.gz").rpartition("-")
    return f"wheel {name} {version} {file_sha256(path)} {path.name}\n"


@pytest.mark.parametrize("full", FULL, ids=lambda one: one[0], indirect=True)
def test_every_script_completes_with_stand_ins(full: BuildPlan, buildah: Buildah, debian: str, tmp_path: Path) -> None:
    name = f"localhost/{full.recipe}"
    programs = write_programs(tmp_path / "programs")
    said = buildah.build(write_context(full, tmp_path / "context"), debian, name, "-v", f"{programs}:/usr/local/bin:ro")
    assert said.count("RUN ") == len(full.steps)
    assert_described(buildah, name, full)
    container = buildah("from", name).strip()
    look = (
        "ls /container/hpc/lib /container/host-libs; cat /opt/configured /opt/hpcmod/build/used;"
        " ls /opt/hpcmod/build; cat /etc/ld.so.conf.d/00-hpcmod.conf"
    )
    (tmp_path / "seen").mkdir()
    seen = ("-v", f"{tmp_path / 'seen'}:/seen")  # buildah may truncate the output that it passes on
    buildah("run", "--isolation=chroot", *seen, container, "--", "sh", "-c", f"({look}) >/seen/found 2>&1")
    buildah("rm", container)
    found = (tmp_path / "seen" / "found").read_text()
    mpi, ofi = dict(full.options)["mpi"], dict(full.options)["ofi"]
    for expected in (
        *("libfabric.so.1", "libnccl-net.so", "librccl-net.so", "/container/hpc/lib"),
        {"ompi": "libmpi.so.40", "mpich": "libmpi.so.12"}[mpi],
        f"wheel mpi4py {dict(full.options)['mpi4py']} ",
        *(f"source {source.name} {source.version} {source.sha256}" for source in full.sources),
    ):
        assert expected in found, expected
    assert ("--enable-cxi=/container/hpc" in found) == (ofi == "builtin")
    assert "work." not in found


def test_the_stand_ins_run_every_component_that_is_not_really_built(tmp_path: Path) -> None:
    run = set()
    for name, mpi, ofi in FULL:
        recipe = next(one for one in RECIPES if one.name == name)
        asked = BuildRequest(
            "amd64",
            mpi=mpi,
            ofi=ofi,
            extras=recipe.extras,
            host_libs=str(Path(__file__).parent),
            settings=needed(recipe),
        )
        run |= {step.component for step in plan_recipe(name, asked, store=larder_in(tmp_path)).steps}
    really_built = {step.component for one in RECIPES if one.name == "pytorch-cpu" for step in one.steps}
    assert run | really_built == {step.component for one in RECIPES for step in one.steps}


def hpcmod(tmp_path: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `hpcmod build` in a directory with its own lock, cache and state."""
    own = {name: str(tmp_path / name.lower()) for name in ("HPCMOD_LOCK", "HPCMOD_CACHE", "XDG_STATE_HOME")}
    return subprocess.run(
        [sys.executable, "-c", "from hpcmod.core.cli.main import main; main()", "build", *arguments],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HPCMOD_SITE": "generic", **own, **environ},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_users_dockerfile_becomes_a_sif_and_is_not_built_twice(stack: Stack, tmp_path: Path) -> None:
    pin = f"source libfabric 2.2.0 {'a' * 64} https://example.org/libfabric.tar.bz2"
    (tmp_path / "mine" / "docker").mkdir(parents=True)
    (tmp_path / "mine" / "used").write_text(f"distribution python3 3.11 - -\n{pin}\n{pin}\n")
    file = tmp_path / "mine" / "docker" / "Dockerfile"
    file.write_text("FROM scratch\nCOPY used /opt/hpcmod/build/used\nENV MINE=yes\n")
    asked = ("mine", "-f", "docker/Dockerfile", "-o", "mine.sif", "--engine", "buildah")
    first = hpcmod(tmp_path, *asked, "--json")
    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    assert (told["version"], told["engine"], told["reused"]) == (1, "buildah", False)
    assert [str(one) for one in read_used(tmp_path / "mine.sif")] == [pin]
    again = hpcmod(tmp_path, *asked)
    assert again.stdout.strip() == str(tmp_path / "mine.sif")
    assert "already exists, built from the same recipe and sources" in again.stderr
    (tmp_path / "mine" / "used").write_text("")
    changed = hpcmod(tmp_path, *asked)
    assert changed.returncode == 2 and "was built from something else" in changed.stderr


def test_a_base_is_checked_against_the_digest_that_its_tag_had_at_first_use(registry: Registry, tmp_path: Path) -> None:
    digest = registry.push_image("recipes/base", [b"one"])["digest"]
    said: list[str] = []
    store = replace(larder_in(tmp_path), offline=False, tell=said.append)
    asked = BuildRequest(HERE, base=f"docker://{registry.host}/recipes/base:1", settings=INDEX)
    first = gather("pytorch-cpu", asked, store=store)
    assert first.base == f"docker://{registry.host}/recipes/base@{digest}"
    assert f"base {registry.host}/recipes/base 1 {digest.removeprefix('sha256:')} tag" in store.lock.read_text()
    assert any("first use of" in line for line in said)
    registry.push_image("recipes/base", [b"two"])
    assert gather("pytorch-cpu", asked, store=store).fingerprint == first.fingerprint


def test_a_registry_that_does_not_say_leaves_the_base_to_the_engine(registry: Registry, tmp_path: Path) -> None:
    said: list[str] = []
    store = replace(larder_in(tmp_path), offline=False, tell=said.append)
    base = f"docker://{registry.host}/recipes/nothing:1"
    assert gather("pytorch-cpu", BuildRequest(HERE, base=base, settings=INDEX), store=store).base == base
    assert "its digest is unknown" in said[0]
    assert not store.lock.exists()
