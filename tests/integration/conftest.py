"""What integration tests share: easyconfigs written on the spot, modules installed once, and looks at a disk.

loader       each pair of module tool and syntax in turn, with modules installed once for the whole session:
             PyTorch as it is for LUMI, and Toy 1.0 and 2.0 for a site whose bind paths and central directory exist here
small_base   what a shell needs of the base image, to build upon
toy          an easyconfig of Toy 1.0 whose image lies in the central directory of `eb`
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

from hpcmod.image.sif.reader import read_sif, squashfs_partition
from tests import corpus
from tests.builds import make_small_base
from tests.stack import CHECKOUT, Done, EasyBuild, ModuleTool, Stack

LUMI_EASYCONFIG = CHECKOUT / "easyconfigs/p/PyTorch/PyTorch-2.7.1-rocm-6.2.4-singularity.eb"
LUMI_IMAGE = "lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif"
TOY_IMAGE = "toy.sif"

THOROUGH = os.environ.get("HPCMOD_THOROUGH") == "1"
"""Asks for the long form of the tests whose length is a matter of patience: kill points, sizes."""


def write_easyconfig(directory: Path, *, name: str = "Toy", version: str = "1.0", **parameters: object) -> Path:
    """Write an easyconfig; further parameters by name, each as Python writes it."""
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


def write_site(directory: Path, text: str, *, extends: str = "generic") -> Path:
    """Write the profile of a site that extends a shipped one."""
    path = directory / "site.toml"
    path.write_text(f'name = "testsite"\nextends = "{extends}"\n{text}', encoding="utf-8")
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


GUARD = ".lock.guard"
"""How the empty file ends that guards the taking of a lock; it stays, for two processes must meet at one file."""


def files_below(directory: Path) -> set[str]:
    """Name every file and link below a directory, by its path from there."""
    paths = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    return {str(path.relative_to(directory)) for path in paths}


def modulefiles(eb: EasyBuild) -> set[str]:
    """Name the modulefiles; EasyBuild also links each into a directory of its class."""
    return files_below(eb.modules)


def leftovers(eb: EasyBuild) -> set[str]:
    """Name what only a running or a killed installation has on disk: temporary files and locks."""
    temporary = {name for name in files_below(eb.prefix) if ".hpcmod-part" in name or name.endswith(".part")}
    locks = {str(path) for path in (eb.prefix / "software/.locks").glob("*") if not path.name.endswith(GUARD)}
    return temporary | locks


def unpack(sif: Path, root: Path) -> Path:
    """Write the root file system of an image to a directory that does not exist yet."""
    partition = squashfs_partition(read_sif(sif))
    unpack = ["unsquashfs", "-quiet", "-no-progress", "-offset", str(partition.offset), "-dest", str(root), str(sif)]
    subprocess.run(unpack, check=True, capture_output=True)
    return root


def make_images(tiny_sif: Path, directory: Path, *generations: str, megabytes: int) -> list[Path]:
    """Write images that run, of equal size, whose /generation tells them apart; a part of one does not run.

    The names of the generations must be of equal length.
    """
    root, body = unpack(tiny_sif, directory / "root"), directory / "body"
    (root / "generation").write_text(MARK + generations[0])
    (root / "padding").write_bytes(random.Random(1).randbytes(1 << 20) * megabytes)  # noqa: S311 - noise for a test
    contents = corpus.pack(root, body, "-noI", "-noD", "-noF", "-noX").read_bytes()
    assert contents.count((MARK + generations[0]).encode()) == 1
    images = []
    for generation in generations:
        mine = contents.replace((MARK + generations[0]).encode(), (MARK + generation).encode())
        images.append(corpus.make_sif(directory / f"{generation}.sif", mine))
    shutil.rmtree(root)
    body.unlink()
    return images


MARK = "this image is generation "


def use_image(eb: EasyBuild, image: Path) -> None:
    """Let the central directory have this image under the name that the easyconfig asks for."""
    link = eb.central / f".{TOY_IMAGE}"
    link.unlink(missing_ok=True)
    link.symlink_to(image)
    link.replace(eb.central / TOY_IMAGE)


def running_generation(lmod: ModuleTool, eb: EasyBuild) -> str:
    """Load Toy and ask its container which generation it is; empty if there is no module, else all must be right."""
    if not (eb.modules / "Toy/1.0.lua").exists():
        assert lmod("module load Toy", eb.modules).returncode != 0
        return ""
    done = lmod("module load Toy && singularity exec $SIF cat /generation && start-shell -c :", eb.modules)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().removeprefix(MARK)


def moments(points: int) -> Iterator[float]:
    """Return random moments as parts of a whole run, from 0 to 1: one in each of so many equal parts, in any order."""
    seed = int(os.environ.get("HPCMOD_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"HPCMOD_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - no secret
    parts = list(range(points))
    chance.shuffle(parts)
    return ((part + chance.random()) / points for part in parts)


@contextmanager
def away(path: Path) -> Iterator[None]:
    """Take a file away for a while."""
    aside = path.with_name(f"{path.name}.away")
    path.rename(aside)
    try:
        yield
    finally:
        aside.rename(path)


@pytest.fixture
def toy(eb: EasyBuild, tiny_sif: Path, tmp_path: Path) -> Path:
    """An easyconfig of Toy 1.0; its image is a file of the central directory, the test's to change."""
    (eb.central / TOY_IMAGE).symlink_to(tiny_sif)
    return write_easyconfig(tmp_path)


@pytest.fixture(scope="session")
def small_base(base_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a shell needs of the base image, as an OCI layout: images of it are made at once."""
    return make_small_base(base_image, tmp_path_factory.mktemp("small-base"))


def installed(eb: EasyBuild, *args: str | Path, **env: str) -> Done:
    """Run `eb` where it must succeed."""
    done = eb(*args, **env)
    assert done.returncode == 0, done.stdout
    return done


@dataclass(frozen=True)
class Loader:
    """One module tool reading modulefiles of one syntax."""

    tool: ModuleTool
    eb: EasyBuild

    def __call__(self, snippet: str, **env: str) -> Done:
        """Run a snippet of bash with `module` at hand and the installed modules in MODULEPATH."""
        return self.tool(snippet, self.eb.modules, **env)

    def variables(self, snippet: str, **env: str) -> dict[str, str]:
        """Return the environment that a snippet leaves, which must succeed."""
        done = self(f"{{ {snippet}\n}} >&2 || exit; env -0", **env)
        assert done.returncode == 0, done.stderr
        return dict(entry.partition("=")[::2] for entry in done.stdout.split("\0") if entry)

    def root(self, module: str) -> Path:
        """Directory of an installation."""
        return self.eb.prefix / "software" / module


BOOKKEEPING = r"_ModuleTable[0-9]+_|_ModuleTable_Sz_|__LMOD_REF_COUNT_(PATH|MODULEPATH)"
"""Lmod's own, which it also keeps for a module that does nothing; Environment Modules keeps nothing."""

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
TOY_TUNABLE = "of the site"
"""


@pytest.fixture(scope="session")
def both_syntaxes(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, EasyBuild]:
    """PyTorch for LUMI, and two of Toy for a site of our own, installed once with Lua and once with Tcl modulefiles."""
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


@pytest.fixture(params=list(LOADERS))
def loader(
    request: pytest.FixtureRequest, stack: Stack, tmp_path: Path, both_syntaxes: Mapping[str, EasyBuild]
) -> Loader:
    """Each pair of module tool and syntax; the installations are everybody's: what a test takes away it puts back."""
    tool, syntax = LOADERS[request.param]
    return Loader(ModuleTool(stack, tmp_path, tool), dataclasses.replace(both_syntaxes[syntax]))
