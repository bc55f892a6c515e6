"""`eb X.eb` works however hpcmod was installed, and finds or fetches images, or lists where it looked for them."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hpcmod.core.cli.reference.man import man_pages
from hpcmod.core.cli.reference.schemas import file_schemas
from tests.integration.conftest import (
    LUMI_EASYCONFIG,
    LUMI_IMAGE,
    TOY_IMAGE,
    installed,
    leftovers,
    modulefiles,
    sha256_of,
    write_easyconfig,
    write_site,
)
from tests.stack import CHECKOUT, Done, EasyBuild, ModuleTool, Stack, run
from tests.unit.images.file_server import Answer, Server, serve

pytestmark = pytest.mark.stack

SOURCE = (
    *("src", "easyblocks", "easyconfigs", "recipes", "runscripts"),
    *("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"),
)


@dataclass(frozen=True)
class Venv:
    """A fresh Python environment with EasyBuild and hpcmod's dependencies, but without hpcmod."""

    stack: Stack
    root: Path

    @property
    def python(self) -> Path:
        return self.root / "bin/python"

    def environment(self, eb: EasyBuild, **more: str) -> dict[str, str]:
        """Return the environment of a user of this venv who has configured only the installation prefix."""
        env = eb.environment()  # with PYTHONOPTIMIZE=0: `eb` would compile EasyBuild without it, as in dev/demo
        for name in ("EASYBUILD_ROBOT_PATHS", "EASYBUILD_DISABLE_GENERATE_DEVEL_MODULE"):
            del env[name]
        return {**env, "PATH": f"{self.root / 'bin'}:{env['PATH']}", "EB_PYTHON": str(self.python), **more}

    def pip(self, *args: str | Path) -> None:
        """Run pip for this venv, without network access; Python compiles what it imports."""
        pip = [
            str(self.stack.python),
            "-m",
            "pip",
            "--python",
            str(self.python),
            "--disable-pip-version-check",
            "install",
            "--no-compile",
        ]
        done = run(
            [*pip, "--no-index", "--no-deps", "--no-build-isolation", *map(str, args)],
            self.stack.environment(self.root),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def eb(self, eb: EasyBuild, *args: str | Path, before: str = ":", **more: str) -> Done:
        """Run a line of bash and then `eb ARGS`, without any EasyBuild configuration except the prefix."""
        script = f'{before}; exec "$@" 2>&1'
        argv = ["bash", "-c", script, "eb", str(self.stack.python.parent / "eb"), *map(str, args)]
        return run(argv, self.environment(eb, **more), eb.top)


@pytest.fixture(scope="module")
def libraries(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to Python packages: `full` has all of the stack except hpcmod, `framework` has no easyblocks."""
    top = tmp_path_factory.mktemp("libraries")
    packages = Path(
        subprocess.check_output([stack.python, "-c", "import click; print(click.__path__[0])"], text=True)
    ).parent
    for kind, left_out in (("full", ()), ("framework", ("easyblocks",))):
        (top / kind / "easybuild").mkdir(parents=True)
        for path in packages.iterdir():
            if "hpcmod" not in path.name and path.name != "easybuild" and path.suffix != ".pth":
                (top / kind / path.name).symlink_to(path)
        for path in (packages / "easybuild").iterdir():
            if path.name not in left_out:
                (top / kind / "easybuild" / path.name).symlink_to(path)
    return top


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that pip installs from, as building writes into the source directory."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in SOURCE:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(stack: Stack, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip builds from a checkout in which it cannot write, built once."""
    top = tmp_path_factory.mktemp("wheel")
    pip = [str(stack.python), "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index", "--no-deps"]
    folders = [checkout, *(path for path in checkout.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    done = run([*pip, "--no-build-isolation", "--wheel-dir", str(top), str(checkout)], stack.environment(top))
    for folder in folders:
        folder.chmod(0o755)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = top.glob("hpcmod-*.whl")
    return built


def test_the_wheel_contains_man_pages_and_schemas(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"hpcmod/schemas/{name}" for name in file_schemas()} < set(names)
    assert {Path(name).name for name in names if "/share/man/man1/" in name} == set(man_pages())


def test_of_a_checkout_only_the_top_directory_may_be_read_only(stack: Stack, checkout: Path) -> None:
    shutil.rmtree(checkout / "hpcmod.egg-info", ignore_errors=True)
    checkout.chmod(0o555)
    done = run([str(stack.python), "setup.py", "--quiet", "egg_info"], stack.environment(checkout), checkout)
    checkout.chmod(0o755)
    assert done.returncode == 0, done.stderr


def make_venv(stack: Stack, root: Path, library: Path) -> Venv:
    venv = Venv(stack, root)
    subprocess.run([stack.python, "-m", "venv", "--without-pip", root], check=True)
    (next(root.glob("lib/python3*/site-packages")) / "libraries.pth").write_text(f"{library}\n")
    return venv


@pytest.fixture(scope="module")
def pip_venv(stack: Stack, libraries: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """A venv with the framework of EasyBuild alone, in which pip has installed the wheel."""
    venv = make_venv(stack, tmp_path_factory.mktemp("pip") / "venv", libraries / "framework")
    venv.pip(wheel)
    return venv


@pytest.fixture
def full_venv(stack: Stack, libraries: Path, tmp_path: Path) -> Venv:
    return make_venv(stack, tmp_path / "venv", libraries / "full")


@pytest.fixture
def lumi_image(eb: EasyBuild, tiny_sif: Path) -> Path:
    """The image of the LUMI easyconfig, in the central directory."""
    image = eb.central / LUMI_IMAGE
    image.symlink_to(tiny_sif)
    return image


def assert_module_runs(lmod: ModuleTool, eb: EasyBuild, done: Done) -> None:
    assert done.returncode == 0, done.stdout
    runs = lmod("module load PyTorch && start-shell -c 'echo from inside'", eb.modules)
    assert runs.stdout == "from inside\n", runs.stderr


def test_after_pip_install_a_plain_eb_finds_easyblock_and_easyconfig(
    pip_venv: Venv, eb: EasyBuild, lumi_image: Path, lmod: ModuleTool
) -> None:
    assert_module_runs(lmod, eb, pip_venv.eb(eb, LUMI_EASYCONFIG.name))


def test_the_module_of_a_site_leaves_the_eb_of_an_active_environment_as_it_works(
    pip_venv: Venv, eb: EasyBuild, stack: Stack, tmp_path: Path
) -> None:
    """Such an `eb` has no easyblocks but hpcmod's, and EasyBuild then fails if others are named."""
    venv, tool = pip_venv, "envmodules"
    (venv.root / "bin/eb").symlink_to(stack.python.parent / "eb")
    environ = venv.environment(replace(eb, modules_tool=tool, syntax="Tcl"), HPCMOD_SITE="generic")
    own, others = environ["PATH"].split(":", 1)
    hpcmod = str(venv.root / "bin/hpcmod")
    assert run([hpcmod, "site", "setup", "--output", str(tmp_path / "site")], environ).returncode == 0

    def shell(snippet: str) -> Done:
        load = f"{ModuleTool(stack, eb.top, tool).prologue()}module use {tmp_path}/site/modules\n"
        return run(["bash", "--norc", "-c", load + snippet], environ, eb.top)

    ask = "eb --search ^PyTorch-2.7.1-rocm && hpcmod doctor --json"
    done = shell(f"module load hpcmod && {ask}; module unload hpcmod; env | grep INCLUDE_EASYBLOCKS")
    assert "PyTorch-2.7.1-rocm-6.2.4-singularity.eb" in done.stdout, done.stdout + done.stderr
    assert f"{own}/eb knows ContainerModule" in done.stdout
    assert "INCLUDE_EASYBLOCKS" not in done.stdout
    later = f"PATH={others}; module load hpcmod; PATH={own}:$PATH; "
    done = shell(f'{later} hpcmod doctor; eval "$(hpcmod site env)"; {ask}')
    assert "EASYBUILD_INCLUDE_EASYBLOCKS is set" in done.stdout
    assert f"{own}/eb knows ContainerModule" in done.stdout, done.stdout + done.stderr


def test_after_an_editable_install_eb_needs_only_the_robot_path(
    full_venv: Venv, checkout: Path, eb: EasyBuild, lumi_image: Path, lmod: ModuleTool
) -> None:
    full_venv.pip("--editable", checkout)
    done = full_venv.eb(eb, LUMI_EASYCONFIG.name, EASYBUILD_ROBOT_PATHS=f"{checkout}/easyconfigs:")
    assert_module_runs(lmod, eb, done)


def test_without_hpcmod_a_venv_finds_nothing_and_a_target_of_pip_is_enough(
    full_venv: Venv, wheel: Path, eb: EasyBuild, lumi_image: Path, lmod: ModuleTool, tmp_path: Path
) -> None:
    """Otherwise the tests of venvs would prove nothing."""
    done = full_venv.eb(eb, LUMI_EASYCONFIG.name)
    assert (done.returncode == 0, LUMI_EASYCONFIG.name in done.stdout) == (False, True)
    full_venv.pip("--target", tmp_path / "anywhere", wheel)
    assert_module_runs(lmod, eb, full_venv.eb(eb, LUMI_EASYCONFIG.name, PYTHONPATH=str(tmp_path / "anywhere")))


def test_hpcmod_install_needs_no_configuration(
    pip_venv: Venv, eb: EasyBuild, lumi_image: Path, lmod: ModuleTool
) -> None:
    venv = pip_venv
    log = eb.top / "hpcmod.core.log"
    hpcmod = [str(venv.root / "bin/hpcmod"), f"--log-file={log}"]
    done = run([*hpcmod, "install", LUMI_EASYCONFIG.name], venv.environment(eb), eb.top)
    assert_module_runs(lmod, eb, done)
    processes = {line.split()[1] for line in log.read_text().splitlines() if "hpcmod.core.lock: locked" in line}
    assert processes - {log.read_text().split()[1]}  # the easyblock logs too
    recipes = run([str(venv.root / "bin/hpcmod"), "build", "--list"], venv.environment(eb), eb.top)
    assert "pytorch-cpu: " in recipes.stdout, recipes.stderr


def test_a_missing_image_is_one_error_with_all_places_and_a_fix(eb: EasyBuild, tmp_path: Path) -> None:
    site = write_site(tmp_path, f'[images]\ncentral = ["{tmp_path}/first", "{tmp_path}/second"]\n')
    easyconfig = write_easyconfig(tmp_path, download_instructions="Ask the operators")
    done = eb(easyconfig, HPCMOD_SITE=str(site))
    assert done.returncode == 3
    parents = [tmp_path, CHECKOUT / "easyconfigs", eb.prefix / "sources", eb.central]
    searched = [parent / below for parent in parents for below in ("t/Toy", "Toy", "")]
    for place in (*searched, tmp_path / "first", tmp_path / "second"):
        assert f"\n  {place / TOY_IMAGE}\n" in done.stdout
    assert (
        "Ask the operators.\nPut the file into one of these directories, or give its directory: eb --sourcepath="
        in done.stdout
    )
    assert done.stdout.count("ERROR") == 1
    assert modulefiles(eb) == set()


@pytest.mark.parametrize("place", ["central/Toy", ""])
def test_an_image_is_found_where_easybuild_looks_for_sources(
    eb: EasyBuild, tiny_sif: Path, tmp_path: Path, place: str
) -> None:
    """The message about a missing image names all places."""
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / TOY_IMAGE).symlink_to(tiny_sif)
    installed(eb, write_easyconfig(tmp_path), "--fetch")


def test_an_image_can_be_named_by_its_path(eb: EasyBuild, tiny_sif: Path, tmp_path: Path, lmod: ModuleTool) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/mine.sif").symlink_to(tiny_sif)
    installed(eb, write_easyconfig(tmp_path, sources=[f"{tmp_path}/elsewhere/mine.sif"]))
    assert lmod("module load Toy; echo $SIF", eb.modules).stdout == f"{eb.prefix}/software/Toy/1.0/mine.sif\n"


@pytest.fixture
def server(tiny_sif: Path) -> Iterator[Server]:
    """A local web server that has the image."""
    with serve(tiny_sif.read_bytes()) as server:
        server.path = f"/images/{TOY_IMAGE}"
        yield server


def from_server(server: Server, tmp_path: Path, **parameters: object) -> Path:
    """Write an easyconfig that downloads its image from the server."""
    return write_easyconfig(tmp_path, source_urls=[server.url.rpartition("/")[0]], **parameters)


def test_an_image_is_downloaded_resumed_verified_and_installed(
    eb: EasyBuild, server: Server, tiny_sif: Path, tmp_path: Path, lmod: ModuleTool
) -> None:
    server.answers = [Answer(cut_at=10_000_000), Answer(cut_at=5_000_000)]
    installed(eb, from_server(server, tmp_path, checksums=[sha256_of(tiny_sif)]), "--enforce-checksums")
    assert sha256_of(eb.prefix / f"sources/t/Toy/{TOY_IMAGE}") == sha256_of(tiny_sif)
    assert lmod("module load Toy && start-shell -c 'echo 1'", eb.modules).stdout == "1\n"
    assert leftovers(eb) == set()
    resumed_at = [int(asked[len("bytes=") : -1]) for asked in server.ranges[1:]]
    assert [place // 1_000_000 for place in resumed_at] == [9, 14]


@pytest.mark.parametrize(
    ("changes", "checksum", "status", "said"),
    [
        pytest.param({}, "0" * 64, 4, f"expected {'0' * 64}", id="something else"),
        pytest.param({"path": "/elsewhere"}, None, 3, f"/images/{TOY_IMAGE}", id="not there"),
        pytest.param({"answers": [Answer(403)] * 9}, None, 8, "403", id="refused"),
    ],
)
def test_an_image_that_cannot_be_downloaded_is_not_kept_and_no_module_is_made(
    *,
    eb: EasyBuild,
    server: Server,
    tmp_path: Path,
    changes: dict[str, object],
    checksum: str | None,
    status: int,
    said: str,
) -> None:
    easyconfig = from_server(server, tmp_path, checksums=[checksum])
    for name, value in changes.items():
        setattr(server, name, value)
    done = eb(easyconfig)
    assert (done.returncode, said in done.stdout) == (status, True), done.stdout
    assert not (eb.prefix / f"sources/t/Toy/{TOY_IMAGE}").exists()
    assert modulefiles(eb) == set()


@pytest.fixture
def site_image(tiny_sif: Path, tmp_path: Path) -> Path:
    """The image, available only in the site's central directory."""
    place = tmp_path / "site-images"
    place.mkdir()
    return Path(shutil.copy(tiny_sif, place / TOY_IMAGE))


def install_from_site(
    eb: EasyBuild, tmp_path: Path, *args: str, site_mode: str = "copy", mode: str = "auto"
) -> dict[str, object]:
    """Install Toy for a site whose central directory has the image; return the `image` entry of the record."""
    site = write_site(tmp_path, f'[images]\ncentral = ["{tmp_path}/site-images"]\ninstall_mode = "{site_mode}"\n')
    installed(eb, write_easyconfig(tmp_path, install_mode=mode), *args, HPCMOD_SITE=str(site))
    record = json.loads((eb.prefix / "software/Toy/1.0/record.json").read_text())
    assert record["fit"]["has_mpi"] is False
    image: dict[str, object] = record["image"]
    return image


def sif_of(lmod: ModuleTool, eb: EasyBuild) -> Path:
    """Return the path of the image that the module runs."""
    done = lmod("module load Toy && singularity exec $SIF true && echo $SIF", eb.modules)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.parametrize(("site_mode", "mode", "linked"), [("central", "copy", False), ("copy", "link", True)])
def test_a_central_image_is_copied_or_linked(
    *, eb: EasyBuild, site_image: Path, tmp_path: Path, lmod: ModuleTool, site_mode: str, mode: str, linked: bool
) -> None:
    record = install_from_site(eb, tmp_path, site_mode=site_mode, mode=mode)
    own = sif_of(lmod, eb)
    assert own.parent == eb.prefix / "software/Toy/1.0"
    assert (own.stat().st_ino == site_image.stat().st_ino) == linked
    assert record["sha256"] == sha256_of(site_image) == sha256_of(own)
    assert (record["method"] == "hardlink", record["bytes_written"] == 0) == (linked, linked)


def test_a_central_image_is_used_in_place_and_a_rebuild_can_drop_and_restore_the_private_copy(
    eb: EasyBuild, site_image: Path, tmp_path: Path, lmod: ModuleTool
) -> None:
    install_from_site(eb, tmp_path)
    record = install_from_site(eb, tmp_path, "--rebuild", site_mode="central")
    assert sif_of(lmod, eb) == site_image
    assert (record["method"], record["bytes_written"]) == ("central", 0)
    assert list((eb.prefix / "software/Toy/1.0").glob("*.sif")) == []
    install_from_site(eb, tmp_path, "--rebuild", mode="copy")
    assert sif_of(lmod, eb).parent == eb.prefix / "software/Toy/1.0"
