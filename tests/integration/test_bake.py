"""Packages that a user bakes into an image: found by the bare image, by a module of it, and by its own checks."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.integration.conftest import installed, use_image, write_easyconfig
from tests.stack import EasyBuild, ModuleTool, run
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

LOOK = "import mine, packaging, sys; print(mine.__file__, packaging.__version__, sys.prefix)"


@pytest.fixture
def hpcmod(eb: EasyBuild):  # type: ignore[no-untyped-def]
    return partial(eb.hpcmod, HPCMOD_SITE="generic", HOME=str(eb.top), MODULEPATH=str(eb.modules))


def test_packages_are_baked_into_an_image_that_works_alone_and_as_a_module(  # type: ignore[no-untyped-def]
    eb: EasyBuild, toy: Path, lmod: ModuleTool, tmp_path: Path, hpcmod
) -> None:
    installed(eb, toy, HPCMOD_SITE="generic")
    mine = {"mine.py": "def say():\n    print('1.0')\n"}
    newer = {"packaging/__init__.py": "__version__ = '99.0'\n"}
    wheels = [
        make_wheel(tmp_path, "mine", "1.0", files=mine, scripts={"mine-says": "mine:say"}),
        make_wheel(tmp_path, "packaging", "99.0", files=newer),
    ]
    done = lmod(f"module load Toy && pip install -q --no-index {' '.join(map(str, wheels))}", eb.modules)
    assert done.returncode == 0, done.stderr

    planned = json.loads(hpcmod("bake", "Toy", "-o", tmp_path / "mine.sif", "--dry-run", "--json").stdout)
    assert planned["added"] == ["mine==1.0", "packaging==99.0"] and planned["commands"] == ["mine-says"]
    assert not (tmp_path / "mine.sif").exists()
    done = hpcmod("bake", "Toy", "-o", tmp_path / "mine.sif")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'mine.sif'}\n"
    image, python = done.stderr.partition("to use them: singularity exec ")[2].split()
    assert hpcmod("bake", "Toy", "-o", tmp_path / "mine.sif").returncode == 2
    inspect = [str(eb.stack.apptainer), "inspect", "--json", str(tmp_path / "mine.sif")]
    shown = json.loads(run(inspect, eb.environment(), tmp_path).stdout)
    assert shown["data"]["attributes"]["labels"]["org.hpcmod.bake.packages"] == "mine==1.0 packaging==99.0"

    alone = [str(eb.stack.apptainer), "exec", image]
    done = run([*alone, python, "-c", LOOK], eb.environment(), tmp_path)
    prefix = "/opt/hpcmod-packages/1/lib/python3"
    assert done.stdout.startswith(prefix) and done.stdout.split()[1:] == ["99.0", str(Path(python).parents[1])]
    says = str(Path(python).with_name("mine-says"))
    assert run([*alone, says], eb.environment(), tmp_path).stdout == "1.0\n"

    use_image(eb, tmp_path / "mine.sif")
    installed(eb, write_easyconfig(tmp_path, name="Baked"), HPCMOD_SITE="generic")
    done = lmod(f"module load Baked && python -c '{LOOK}' && singularity exec $SIF mine-says", eb.modules)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(prefix)
    assert done.stdout.split()[1:] == ["99.0", "/user-software/venv/baked", "1.0"]

    make_wheel(tmp_path, "extra", "2.0")
    done = hpcmod("add", "Toy", "extra", "--wheel-dir", tmp_path, "--no-index")
    assert done.returncode == 0, done.stderr
    planned = json.loads(hpcmod("bake", "Toy", "-o", tmp_path / "set.sif", "--dry-run", "--json").stdout)
    assert planned["packages"].endswith(".squashfs") and planned["added"] == ["extra==2.0"]
    assert hpcmod("bake", "Toy", "-o", tmp_path / "set.sif").returncode == 0
    alone = [str(eb.stack.apptainer), "exec", str(tmp_path / "set.sif"), python, "-c", "import extra"]
    assert run(alone, eb.environment(), tmp_path).returncode == 0
