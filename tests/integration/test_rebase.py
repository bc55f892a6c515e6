"""Packages rebuilt for an image with another Python.

Needs HPCMOD_THOROUGH=1 and HPCMOD_OTHER_PYTHON=PREFIX/bin/python3.12, a Python of another minor version that other
users can read; distributions provide one, package indexes do not. The second image is the first one with that Python.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import corpus
from tests.integration.conftest import THOROUGH, Loader, installed, unpack, write_easyconfig
from tests.integration.test_user_packages import Mine
from tests.stack import EasyBuild, ModuleTool
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

OTHER_PYTHON = os.environ.get("HPCMOD_OTHER_PYTHON", "")
PREFIX = "opt/miniconda3/envs/pytorch"
LEFT_OUT = ("test", "idlelib", "lib2to3", "tkinter", "ensurepip", "site-packages", "config-*", "__phello__")


def make_other_image(tiny_sif: Path, python: Path, out: Path) -> Path:
    """Write the tiny image with another Python, its pure-Python packages and an additional package."""
    root = unpack(tiny_sif, out.with_suffix(".root"))
    env, name, prefix = root / PREFIX, python.name, python.parents[1]
    (old,) = (env / "lib").glob("python3*")
    shutil.copytree(prefix / "lib" / name, env / "lib" / name, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    shutil.copytree(old / "site-packages", env / "lib" / name / "site-packages")
    shutil.rmtree(old)
    (env / "bin" / old.name).unlink()
    shutil.copy2(python, env / "bin" / name)
    for link in ("python", "python3"):
        (env / "bin" / link).unlink()
        (env / "bin" / link).symlink_to(name)
    copy_libraries(root, prefix / "lib", [env / "bin" / name, *(env / "lib" / name / "lib-dynload").glob("*.so")])
    site = env / "lib" / name / "site-packages"
    (site / "inimage-1.5.dist-info").mkdir()
    (site / "inimage-1.5.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: inimage\nVersion: 1.5\n")
    (site / "inimage.py").write_text("version = '1.5'\n")
    body = corpus.pack(root, out.with_suffix(".body"), "-comp", "zstd", "-Xcompression-level", "1")
    shutil.rmtree(root)
    return corpus.make_sif(out, body.read_bytes())


def copy_libraries(root: Path, directory: Path, files: Sequence[Path]) -> None:
    """Copy the libraries that programs need to a directory that the loader searches in every image."""
    environ = {**os.environ, "LD_LIBRARY_PATH": str(directory)}
    shown = subprocess.run(["ldd", *map(str, files)], env=environ, capture_output=True, text=True).stdout
    for library in sorted(set(re.findall(r"=> (/\S+) \(0x", shown))):
        target = root / "usr/lib" / Path(library).name
        if not (root / library.lstrip("/")).exists() and not target.exists():
            shutil.copy2(library, target)


if THOROUGH and OTHER_PYTHON:

    @pytest.fixture
    def mine(eb: EasyBuild, lmod: ModuleTool, tiny_sif: Path, tmp_path: Path) -> Mine:
        """A user of Toy/1.0 with Python 3.11 and Toy/2.0 with another version, who has packages for the first."""
        (eb.central / "toy.sif").symlink_to(tiny_sif)
        make_other_image(tiny_sif, Path(OTHER_PYTHON), eb.central / "other.sif")
        second = write_easyconfig(tmp_path, version="2.0", sources=["other.sif"])
        installed(eb, write_easyconfig(tmp_path), second, HPCMOD_SITE="generic")
        wheels, old, new = tmp_path / "wheels", "cp311", Path(OTHER_PYTHON).name.replace("python3.", "cp3")
        for version in ("0.8.0", "0.8.1"):
            make_wheel(wheels, "einops", version)
        for tag in (old, new):
            make_wheel(
                wheels, "compiled", "1.0", tag=f"{tag}-{tag}-linux_x86_64", files={"compiled.py": f"tag='{tag}'"}
            )
        make_wheel(wheels, "onlyold", "1.0", tag="cp311-cp311-linux_x86_64")
        make_wheel(wheels, "inimage", "1.0")
        make_wheel(wheels, "lost", "1.0")
        make_wheel(wheels, "pinned", "1.0", requires=["inimage<1.2"])
        return Mine(Loader(lmod, eb), wheels)

    def test_every_package_gets_its_verdict_and_nothing_is_lost(mine: Mine) -> None:
        """Packages: pure, compiled, only for the old Python, already in the image, gone, and in conflict."""
        first = "Toy/1.0"
        mine.must("add", first, "einops==0.8.0", "compiled", "onlyold", "inimage", "lost", "pinned")
        (mine.wheels / "lost-1.0-py3-none-any.whl").unlink()
        refused = mine("rebase", "Toy/2.0")
        verdicts = dict(re.split(r": ", line, maxsplit=1) for line in refused.stdout.splitlines())
        assert {name: verdict.split(" (")[0] for name, verdict in verdicts.items()} == {
            "compiled": "same 1.0",
            "einops": "same 0.8.0",
            "inimage": "in the image 1.0 -> 1.5",
            "lost": "gone 1.0",
            "onlyold": "gone 1.0",
            "pinned": "conflict 1.0",
        }, refused.stderr
        assert refused.returncode == 1
        left_out = re.findall(r"--without (\S+)", refused.stderr)
        assert left_out == ["lost", "onlyold", "pinned"]
        loaded = "module load Toy/2.0; python -c 'import einops'"
        done = mine.loader(loaded)
        assert "No module named 'einops'" in done.stderr and "hpcmod rebase Toy" in " ".join(done.stderr.split())

        mine.must("rebase", "Toy/2.0", *(word for name in left_out for word in ("--without", name)))
        show = "import compiled, einops, inimage; print(compiled.tag, einops.version, inimage.version)"
        tag = Path(OTHER_PYTHON).name.replace("python3.", "cp3")
        for module, wanted in (("Toy/2.0", [tag, "0.8.0", "1.5"]), (first, ["cp311", "0.8.0", "1.0"])):
            done = mine.loader(f'module load {module} && python -c "{show}"')
            assert done.stdout.split() == wanted, done.stderr
        back = json.loads(mine.must("packages", first, "--json"))["state"]
        assert sorted(one["name"] for one in back["packages"]) == [
            "compiled", "einops", "inimage", "lost", "onlyold", "pinned",
        ]  # fmt: skip
