"""Shared by the integration tests: generated easyconfigs, modules installed once per session, file listings.

loader       combinations of module tool and syntax (of a test's cases, one with Lmod and Tcl), with modules installed
             once per session: PyTorch as shipped for LUMI, and Toy 1.0 and 2.0 for a site whose bind paths and central
             directory exist here
small_base   the parts of the base image that a shell needs, for building quickly
toy          an easyconfig for Toy 1.0 whose image is in the central directory of `eb`
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.images.sif.reader import read_sif, squashfs_partition
from tests import corpus
from tests.small_base import make_small_base
from tests.stack import CHECKOUT, Done, EasyBuild, ModuleTool, Stack

LUMI_EASYCONFIG = CHECKOUT / "easyconfigs/p/PyTorch/PyTorch-2.7.1-rocm-6.2.4-singularity.eb"
LUMI_IMAGE = "lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif"
TOY_IMAGE = "toy.sif"


def write_easyconfig(directory: Path, *, name: str = "Toy", version: str = "1.0", **parameters: object) -> Path:
    """Write an easyconfig; extra keyword arguments become parameters, written with `repr`."""
    fields = {
        "easyblock": "ContainerModule",
        "name": name,
        "version": version,
        "homepage": "https://example.org/toy",
        "description": "A toy",
        "sources": [TOY_IMAGE],
        **parameters,
        "moduleclass": "ai",
    }
    lines = ["toolchain = SYSTEM", *(f"{key} = {value!r}" for key, value in fields.items())]
    path = directory / f"{name}-{version}.eb"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_site(directory: Path, text: str) -> Path:
    """Write a site profile that extends `generic`."""
    path = directory / "site.toml"
    path.write_text(f'name = "testsite"\nextends = "generic"\n{text}', encoding="utf-8")
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


GUARD = ".lock.guard"
"""Suffix of the empty file that serializes lock acquisition; never deleted, as every process must use the same file."""


def files_below(directory: Path) -> set[str]:
    """Return the relative path of every file and link below a directory."""
    paths = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    return {str(path.relative_to(directory)) for path in paths}


def modulefiles(eb: EasyBuild) -> set[str]:
    """Return the paths of all modulefiles, including the links that EasyBuild makes for each module class."""
    return files_below(eb.modules)


def leftovers(eb: EasyBuild) -> set[str]:
    """Return what only a running or killed installation leaves on disk: temporary files and locks."""
    temporary = {name for name in files_below(eb.prefix) if ".hpcmod-part" in name or name.endswith(".part")}
    locks = {str(path) for path in (eb.prefix / "software/.locks").glob("*") if not path.name.endswith(GUARD)}
    return temporary | locks


def unpack(sif: Path, root: Path) -> Path:
    """Unpack the root file system of an image into a directory that does not exist yet."""
    partition = squashfs_partition(read_sif(sif))
    unpack = ["unsquashfs", "-quiet", "-no-progress", "-offset", str(partition.offset), "-dest", str(root), str(sif)]
    subprocess.run(unpack, check=True, capture_output=True)
    return root


def make_images(tiny_sif: Path, directory: Path, *generations: str, megabytes: int) -> list[Path]:
    """Write runnable images of equal size that differ only in /generation; a truncated one does not run.

    The names of the generations must have equal length. mksquashfs stores what it cannot compress as it is.
    """
    added, body = directory / "added", directory / "body"
    added.mkdir()
    (added / "generation").write_text(MARK + generations[0])
    (added / "padding").write_bytes(random.Random(1).randbytes(1 << 20) * megabytes)  # noqa: S311 - noise for a test
    partition = squashfs_partition(read_sif(tiny_sif))
    body.write_bytes(tiny_sif.read_bytes()[partition.offset :][: partition.size])
    append = ["mksquashfs", added, body, "-quiet", "-no-progress", "-no-recovery", "-all-root", "-processors", "1"]
    subprocess.run(append, check=True, capture_output=True)
    contents = body.read_bytes()
    assert contents.count((MARK + generations[0]).encode()) == 1
    images = []
    for generation in generations:
        mine = contents.replace((MARK + generations[0]).encode(), (MARK + generation).encode())
        images.append(corpus.make_sif(directory / f"{generation}.sif", mine))
    shutil.rmtree(added)
    body.unlink()
    return images


MARK = "this image is generation "


def use_image(eb: EasyBuild, image: Path) -> None:
    """Make this image available in the central directory, under the file name in the easyconfig."""
    link = eb.central / f".{TOY_IMAGE}"
    link.unlink(missing_ok=True)
    link.symlink_to(image)
    link.replace(eb.central / TOY_IMAGE)


def running_generation(lmod: ModuleTool, eb: EasyBuild) -> str:
    """Load Toy and return the generation that its container reports, or an empty string if there is no module.

    A module that exists must load and run.
    """
    if not (eb.modules / "Toy/1.0.lua").exists():
        assert lmod("module load Toy", eb.modules).returncode != 0
        return ""
    done = lmod("module load Toy && singularity exec $SIF cat /generation && start-shell -c :", eb.modules)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().removeprefix(MARK)


def moments(points: int) -> Iterator[float]:
    """Return random points in time as fractions of a run: one from each of `points` equal intervals, shuffled."""
    seed = int(os.environ.get("HPCMOD_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"HPCMOD_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - no secret
    parts = list(range(points))
    chance.shuffle(parts)
    return ((part + chance.random()) / points for part in parts)


@contextmanager
def away(path: Path) -> Iterator[None]:
    """Move a file away temporarily."""
    aside = path.with_name(f"{path.name}.away")
    path.rename(aside)
    try:
        yield
    finally:
        aside.rename(path)


@pytest.fixture
def toy(eb: EasyBuild, tiny_sif: Path, tmp_path: Path) -> Path:
    """An easyconfig for Toy 1.0; its image is in the central directory, where the test may replace it."""
    (eb.central / TOY_IMAGE).symlink_to(tiny_sif)
    return write_easyconfig(tmp_path)


@pytest.fixture(scope="session")
def small_base(base_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of the base image that a shell needs, as an OCI layout: images based on it build quickly."""
    return make_small_base(base_image, tmp_path_factory.mktemp("small-base"))


def installed(eb: EasyBuild, *args: str | Path, **env: str) -> Done:
    """Run `eb` and require that it succeeds."""
    done = eb(*args, **env)
    assert done.returncode == 0, done.stdout
    return done


@dataclass(frozen=True)
class Loader:
    """A module tool, with modulefiles in one syntax."""

    tool: ModuleTool
    eb: EasyBuild

    def __call__(self, snippet: str, **env: str) -> Done:
        """Run a bash snippet with `module` defined and the installed modules in MODULEPATH."""
        return self.tool(snippet, self.eb.modules, **env)

    def variables(self, snippet: str, **env: str) -> dict[str, str]:
        """Return the environment after running a snippet, which must succeed."""
        done = self(f"{{ {snippet}\n}} >&2 || exit; env -0", **env)
        assert done.returncode == 0, done.stderr
        return dict(entry.partition("=")[::2] for entry in done.stdout.split("\0") if entry)

    def root(self, module: str) -> Path:
        """Return the installation directory of a module."""
        return self.eb.prefix / "software" / module


BOOKKEEPING = r"_ModuleTable[0-9]+_|_ModuleTable_Sz_|__LMOD_LAST_ERROR|__LMOD_REF_COUNT_(PATH|MODULEPATH)|PATH_modshare"
"""Bookkeeping variables of Lmod, which sets them even for an empty module, and the last of Environment Modules 4."""

SNAPSHOT = f"""
snapshot() {{ env -0 | sort -z | grep -zvE '^({BOOKKEEPING})='; }}
compare() {{ cmp -s $1 $2 || diff <(tr '\\0' '\\n' <$1) <(tr '\\0' '\\n' <$2); }}
"""

PYTORCH = "PyTorch/2.7.1-rocm-6.2.4-singularity"
TOY = "Toy/1.0"

TOY_SITE = """
[images]
central = ["{top}/site-images"]

[binds]
required = ["{top}/binds/required", "{top}/binds/not-on-this-node"]
optional = ["{top}/binds/optional:/optional", "{top}/binds/nowhere"]

[netstack]
directory = ["{top}/netstack/*"]

[environment]
TOY_TUNABLE = "of the {{site}}"
"""


@pytest.fixture(scope="session")
def both_syntaxes(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, EasyBuild]:
    """PyTorch for LUMI and two versions of Toy for a test site, each installed with Lua and with Tcl modules."""
    found = {}
    for syntax in ("Lua", "Tcl"):
        top = tmp_path_factory.mktemp(f"modules-{syntax.lower()}")
        eb = EasyBuild(stack, top, top / "central", syntax=syntax)
        for place in ("central", "site-images", "binds/required", "binds/optional"):
            (top / place).mkdir(parents=True)
        (top / "binds/optional/of-the-site").touch()
        (eb.central / LUMI_IMAGE).symlink_to(tiny_sif)
        (eb.central / TOY_IMAGE).symlink_to(tiny_sif)
        (top / "site-images" / TOY_IMAGE).symlink_to(tiny_sif)
        site = write_site(top, TOY_SITE.format(top=top))
        installed(eb, LUMI_EASYCONFIG, HPCMOD_SITE="lumi")
        installed(eb, write_easyconfig(top), write_easyconfig(top, version="2.0"), HPCMOD_SITE=str(site))
        found[syntax] = eb
    return found


LOADERS: Mapping[str, tuple[str, str]] = {
    "lmod-lua": ("lmod", "Lua"),
    "lmod-tcl": ("lmod", "Tcl"),
    "envmodules-tcl": ("envmodules", "Tcl"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep one case of each test for Lmod with Tcl: any two of tool, syntax and case still meet."""
    tried, kept = set(), []
    for item in items:
        call = getattr(item, "callspec", None)
        test = item.nodeid.partition("[")[0]
        if call and call.params.get("loader") == "lmod-tcl":
            if test in tried:
                continue
            tried.add(test)
        kept.append(item)
    items[:] = kept


@pytest.fixture(params=list(LOADERS))
def loader(
    request: pytest.FixtureRequest, stack: Stack, tmp_path: Path, both_syntaxes: Mapping[str, EasyBuild]
) -> Loader:
    """Each combination of module tool and syntax; installations are shared, so tests restore what they remove."""
    tool, syntax = LOADERS[request.param]
    return Loader(ModuleTool(stack, tmp_path, tool), dataclasses.replace(both_syntaxes[syntax]))
