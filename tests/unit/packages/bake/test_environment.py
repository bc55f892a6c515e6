"""A conda environment is added to an image at the prefix that its files contain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.images import Sif
from hpcmod.packages.bake.environment import Environment, write_environment
from hpcmod.packages.bake.writing import NewFile
from hpcmod.packages.values.conda import CONDA_IN_CONTAINER
from tests import corpus
from tests.unit.packages.bake.test_image import read

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="mksquashfs is missing")

SCRIPT = "/.singularity.d/env/93-hpcmod-conda.sh"
OWN = CONDA_IN_CONTAINER


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An environment with Python, a program, and their records."""
    top = tmp_path / "environment"
    for name in ("bin/python3.12", "bin/greet", "lib/python3.12/os.py", "conda-meta/python-3.12.1-h0_0.json"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    (top / "bin/python3").symlink_to("python3.12")
    (top / "bin/greet").chmod(0o755)
    return Environment(top, OWN, ("python-3.12.1-h0_0",), python="3.12", on_path=True)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return corpus.make_image(tmp_path / "plain.sif", {"etc/motd": "hello", ".singularity.d/env/01-base.sh": ""})


def new(path: Path, **more: object) -> NewFile:
    return NewFile(path, **more)  # type: ignore[arg-type]


def test_an_image_without_python_gets_one_that_comes_first(
    tmp_path: Path, plain: Path, environment: Environment
) -> None:
    out = tmp_path / "mine.sif"
    _, replaced = write_environment(plain, environment, new(out, lock="5" * 64))
    python = Sif(out).facts().python
    assert python is not None
    assert (python.prefix, python.version, replaced) == (OWN, "3.12", ())
    assert read(out, f"{OWN}/bin/greet") == b"bin/greet"
    assert read(out, "/etc/motd") == b"hello"
    assert read(out, SCRIPT).decode().splitlines() == [
        f'export PATH="{OWN}/bin:$PATH"',
        f'export CONDA_PREFIX="{OWN}"',
        "export VIRTUAL_ENV=",
    ]
    labels = json.loads(read(out, "/.singularity.d/labels.json"))
    assert labels["org.hpcmod.conda.packages"] == "python-3.12.1-h0_0"
    known = Sif(out).provenance(None)
    assert known is not None
    assert known.reference == f"bake:{plain}@sha256:{file_sha256(plain)}"
    assert (known.lock, known.sha256) == ("5" * 64, file_sha256(out))


def test_packages_are_added_to_the_environment_of_the_image(
    tmp_path: Path, plain: Path, environment: Environment
) -> None:
    first = tmp_path / "1.sif"
    write_environment(plain, environment, new(first))
    top = tmp_path / "more"
    for name, text in {"conda-meta/tool-1-0.json": "{}", "bin/tool": "x", "bin/greet": "other"}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    more = replace(environment, directory=top, packages=("tool-1-0",))
    second = tmp_path / "2.sif"
    _, replaced = write_environment(first, more, new(second))
    assert replaced == (f"{OWN}/bin/greet",)
    assert read(second, f"{OWN}/lib/python3.12/os.py") == b"lib/python3.12/os.py"
    assert read(second, f"{OWN}/bin/tool") == b"x"


def test_a_directory_never_replaces_a_file_or_link_of_the_image(
    tmp_path: Path, plain: Path, environment: Environment
) -> None:
    (environment.directory / "lib64").symlink_to("lib")
    first = tmp_path / "1.sif"
    write_environment(plain, environment, new(first))
    top = tmp_path / "more"
    (top / "lib64").mkdir(parents=True)
    (top / "lib64/x").write_text("x")
    more = replace(environment, directory=top, packages=())
    with pytest.raises(BadInputError, match=f"the image has a symlink at {OWN}/lib64, where a conda package has a dir"):
        write_environment(first, more, new(tmp_path / "2.sif"))
    assert not (tmp_path / "2.sif").exists()


def test_an_image_in_which_another_python_would_come_first_is_not_written(
    tmp_path: Path, environment: Environment
) -> None:
    base = corpus.make_image(tmp_path / "base.sif")
    with pytest.raises(VerificationError, match=r"lacks no-such-1, Python 3\.12 in /opt/hpcmod-conda"):
        write_environment(base, replace(environment, packages=("no-such-1",)), new(tmp_path / "mine.sif"))
    assert not list(tmp_path.glob("*mine*"))
