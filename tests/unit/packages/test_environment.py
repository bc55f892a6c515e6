"""conda packages installed as a separate environment; tests/integration uses real containers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, CheckFailedError, HpcmodError
from hpcmod.core.values.facts import Package
from hpcmod.modules.values.place import SOURCE_TIME
from hpcmod.packages.bake.image import BaseImage, read_base
from hpcmod.packages.builder import Builder
from hpcmod.packages.environment import choose_packages, linked_environment
from hpcmod.packages.values.conda import CONDA_IN_CONTAINER, CondaPackage, CondaPart
from tests import corpus
from tests.conda_channel import PLACEHOLDER, CondaFile, dist_info, index_channel, make_conda
from tests.programs import make_program

pytestmark = [pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="mksquashfs is missing"), pytest.mark.slow]

OF_CONDA = "/opt/miniconda3/envs/pytorch"


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("channel")
    python = {
        "bin/python3.12": CondaFile(b"x", 0o755),
        "bin/python": CondaFile(link="python3.12"),
        "lib/python3.12/os.py": "",
    }
    make_conda(path, "python", "3.12.1", python)
    pure = {"site-packages/pure.py": f"# {PLACEHOLDER}\n", **dist_info("pure", "1.0")}
    make_conda(path, "pure", "1.0", pure, depends=["python"], python=True, entry_points=["pure = pure:main"])
    make_conda(
        path,
        "tool",
        "1.0",
        {"bin/tool": f"#!{PLACEHOLDER}/bin/sh\n", "lib/liba.so": CondaFile(link="liba.so.1")},
        kind="tar.bz2",
    )
    make_conda(path, "own", "1.0", {"conda-meta/x.json": "{}"})
    return index_channel(path)


@pytest.fixture
def builder(builder: Builder, tmp_path: Path) -> Builder:
    """A fake runtime that records what it is asked to run."""
    make_program(tmp_path / "runtime", f'#!/bin/sh\necho "$*" >>{tmp_path}/called\n')
    return replace(builder, runtime=str(tmp_path / "runtime"))


def base_of(sif: Path) -> BaseImage:
    return read_base(sif, sif.name)


@pytest.fixture
def plain(tmp_path: Path) -> BaseImage:
    return base_of(corpus.make_image(tmp_path / "plain.sif", {"etc/motd": "hello"}))


def part(channel: str, *specs: str) -> CondaPart:
    return CondaPart(specs, (channel,))


def test_an_image_without_python_gets_condas_own(
    plain: BaseImage, channel: str, builder: Builder, tmp_path: Path
) -> None:
    wanted = part(channel, "pure", "tool")
    assert {one.name for one in choose_packages(plain, wanted, builder)} == {"python", "pure", "tool"}
    with linked_environment(plain, wanted, builder) as (made, installed):
        top = made.directory
        assert (made.prefix, made.python, made.on_path) == (CONDA_IN_CONTAINER, "3.12", True)
        assert made.packages == ("pure-1.0-h0_0", "python-3.12.1-h0_0", "tool-1.0-h0_0")
        assert (top / "bin/tool").read_text() == f"#!{CONDA_IN_CONTAINER}/bin/sh\n"
        assert (top / "bin/pure").read_text().startswith(f"#!{CONDA_IN_CONTAINER}/bin/python\n")
        assert (top / "lib/python3.12/site-packages/pure.py").is_file()
        assert sorted(path.name for path in (top / "conda-meta").iterdir())[0] == "history"
        ours = [top / name for name in ("", "bin", "lib/liba.so", "bin/pure", "conda-meta/history")]
        assert {path.lstat().st_mtime for path in ours} == {SOURCE_TIME}
        record = json.loads((top / "conda-meta/pure-1.0-h0_0.json").read_text())
        assert record["sha256"] == installed.find("pure").sha256  # type: ignore[union-attr]
    called = (tmp_path / "called").read_text()
    assert f"{plain.sif} /user-software/prefix/bin/python3.12 -I -m compileall" in called
    assert called.rstrip().endswith(f"-p {CONDA_IN_CONTAINER} /user-software/prefix/lib/python3.12")
    assert not list(builder.temporary.iterdir())


def test_programs_need_no_python_and_start_no_container(
    plain: BaseImage, channel: str, builder: Builder, tmp_path: Path
) -> None:
    with linked_environment(plain, part(channel, "tool"), builder) as (made, _):
        assert (made.python, made.packages) == ("", ("tool-1.0-h0_0",))
    assert not (tmp_path / "called").exists()


def test_a_second_python_must_be_asked_for(tmp_path: Path, channel: str, builder: Builder) -> None:
    base = base_of(corpus.make_image(tmp_path / "base.sif"))
    with pytest.raises(BadInputError, match=r"pure: needs conda's Python, but the Python of base\.sif is not conda's"):
        choose_packages(base, part(channel, "pure"), builder)
    chosen = choose_packages(base, part(channel, "pure", "python"), builder)
    assert [one.name for one in chosen] == ["python", "pure"]


def test_packages_go_to_the_environment_of_a_conda_image(tmp_path: Path, channel: str, builder: Builder) -> None:
    record = {"name": "python", "version": "3.12.1", "build": "h0_0"}
    tree = {**corpus.CONDA_TREE, f"{OF_CONDA}/conda-meta/python-3.12.1-h0_0.json": json.dumps(record)}
    base = base_of(corpus.make_image(tmp_path / "base.sif", tree))
    with linked_environment(base, part(channel, "pure"), builder) as (made, _):
        assert (made.prefix, made.python, made.on_path) == (OF_CONDA, "3.12", False)
        assert made.packages == ("pure-1.0-h0_0",)
        assert not (made.directory / "conda-meta/history").exists()
    assert f"{OF_CONDA}/bin/python3.12 -I -m compileall" in (tmp_path / "called").read_text()
    of_pip = replace(base, facts=replace(base.facts, packages=(*base.facts.packages, Package("Pure", "0.9"))))
    with (
        pytest.raises(
            BadInputError, match=r"replace packages that pip installed in base\.sif: pure \(the image has 0.9"
        ),
        linked_environment(of_pip, part(channel, "pure"), builder),
    ):
        pass
    with (
        pytest.raises(BadInputError, match=r"base\.sif has all of these packages: python"),
        linked_environment(base, part(channel, "python"), builder),
    ):
        pass
    with linked_environment(base, part(channel, "python"), builder, may_be_empty=True) as (made, _):
        assert (made.packages, list(made.directory.iterdir())) == ((), [])
    other = CondaPackage("python", "3.12.0", "h0_0", "file:///x/python-3.12.0-h0_0.conda", "a" * 64)
    locked = CondaPart(("python",), (channel,), (other,), exact=True)
    with pytest.raises(BadInputError, match=r"python 3\.12\.0 h0_0 does not fit base\.sif, which has 3\.12\.1 h0_0"):
        choose_packages(base, locked, builder)


@pytest.mark.parametrize(
    ("spec", "error", "told"),
    [("pure", CheckFailedError, "Python 3.12 of conda does not start"), ("own", BadInputError, "belongs to conda")],
)
def test_nothing_is_left_of_what_cannot_be_installed(
    plain: BaseImage, channel: str, builder: Builder, spec: str, error: type[HpcmodError], told: str
) -> None:
    Path(builder.runtime).write_text("#!/bin/sh\necho broken >&2\nexit 255\n")
    with pytest.raises(error, match=told), linked_environment(plain, part(channel, spec), builder):
        pass
    assert not list(builder.temporary.iterdir())
